#!/usr/bin/env bash
# Fuzzes every reader of foreign bytes for FUZZ_SECONDS each, or those of captures for 10 minutes and the others for one. Works on a stable
# compiler: no sanitizer, the fuzzer's coverage only.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh fuzz
. scripts/path.sh
export RUSTC_BOOTSTRAP=1
cargo fuzz --version >/dev/null 2>&1 || cargo install --locked --quiet cargo-fuzz
for target in $(cargo fuzz list); do
    echo "fuzz: $target" >&2
    # What it has found so far, and what it begins from.
    mkdir -p "fuzz/corpus/$target"
    folders=("fuzz/corpus/$target")
    [[ $target == recording ]] && folders+=(crates/yuzuri-trace/tests/golden)
    [[ $target == capture ]] && folders+=(crates/yuzuri-capture/tests/odd)
    [[ -d fuzz/seeds/$target ]] && folders+=("fuzz/seeds/$target")
    # Captures come from anywhere, and are taken apart furthest.
    seconds=60
    [[ $target == capture || $target == identify ]] && seconds=600
    cargo fuzz run --sanitizer none "$target" "${folders[@]}" -- \
        -max_total_time="${FUZZ_SECONDS:-$seconds}" -timeout=10 -rss_limit_mb=512
done
