#!/usr/bin/env bash
# Builds the command and the integration tests of the monitor, the congestion control and the gate,
# and runs them under Debian's kernels in QEMU: kernels.sh [KERNEL...] (default: 6.1-amd64
# 6.12-amd64 6.1-arm64). KERNELS_WORDS has further arguments for `yuzuri-vm test` (--only filters).
# The guests' output is stored in target/kernels/logs.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
. scripts/cross.sh
scripts/setup.sh vm

kernels=("$@")
[ ${#kernels[@]} != 0 ] || kernels=(6.1-amd64 6.12-amd64 6.1-arm64)
crates=(-p yuzuri-kernel -p yuzuri-gate)
base=${CARGO_TARGET_DIR:-target}/kernels
# Keep the programs small: the guest's files are in its memory.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_STRIP=symbols

say() { printf 'kernels: %s\n' "$*" >&2; }
vm() { cargo run --quiet --locked --target-dir "$base/vm" -p yuzuri-vm -- "$@"; }

# built ARCHITECTURE TARGET: fills the program folder of an architecture.
built() {
    local arch=$1 target=$2 folder=$base/programs-$1 list=$base/built-$1.json
    say "building the tests for $arch"
    cargo test --locked --no-run "${crates[@]}" --target "$target" --target-dir "$base" \
        --message-format=json-render-diagnostics >"$list"
    cargo build --locked -p yuzuri --target "$target" --target-dir "$base" --message-format=json-render-diagnostics >>"$list"
    rm -rf "$folder"
    mkdir -p "$folder/bin"
    # From each line: the target's name and its executable.
    sed -n 's/.*"target":{[^}]*"name":"\([^"]*\)".*"executable":"\([^"]*\)".*/\1 \2/p' "$list" |
        while read -r name executable; do
            case $name in
            yuzuri) cp "$executable" "$folder/bin/" ;;
            *) cp "$executable" "$folder/$name" ;;
            esac
        done
    cp scripts/kernels/command "$folder/"
}

mkdir -p "$base"
say "images of ${kernels[*]}"
vm build "${kernels[@]}"
programs=()
case " ${kernels[*]} " in *amd64*)
    built amd64 x86_64-unknown-linux-gnu
    programs+=(--programs "amd64=$base/programs-amd64")
    ;;
esac
case " ${kernels[*]} " in *arm64*)
    cross arm64 "$(vm cross arm64)"
    built arm64 aarch64-unknown-linux-gnu
    programs+=(--programs "arm64=$base/programs-arm64")
    ;;
esac
status=0
# shellcheck disable=SC2086
vm test "${programs[@]}" "${kernels[@]/#/--kernel=}" --logs "$base/logs" ${KERNELS_WORDS:-} || status=$?
case " ${kernels[*]} " in *" 6.1-amd64 "*)
    say "guests themselves: what goes wrong is reported, and a seed repeats a run on a busy machine"
    cargo test --locked --quiet --target-dir "$base/vm" -p yuzuri-vm -- --ignored --nocapture || status=$?
    ;;
esac
case " ${kernels[*]} " in *" 6.12-amd64 "*)
    say "the laboratory in it: a seed repeats the windows of a whole experiment"
    cargo test --locked --quiet --target-dir "$base/vm" -p yuzuri-lab --test virtual_time -- --ignored --nocapture || status=$?
    say "steps of the wall clock: wall times follow, and bounds last as long as they were set for"
    cargo test --locked --quiet --target-dir "$base/vm" -p yuzuri --test clock_steps -- --ignored --nocapture || status=$?
    say "sharing over the kernel's own 802.11: by access point and rate, roaming"
    vm build --wireless 6.12-amd64
    cargo test --locked --quiet --target-dir "$base/vm" -p yuzuri --test wireless -- --ignored --nocapture || status=$?
    ;;
esac
exit $status
