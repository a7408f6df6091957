#!/usr/bin/env bash
# Fuzzes every reader of foreign bytes: those of captures for 10 minutes, the others for one. FUZZ_SECONDS=60 or FUZZ_HOURS=1 is
# the time of each, FUZZ_TARGETS="message http" a choice, FUZZ_SANITIZER=none leaves the sanitizers out. A stable compiler suffices.
#
# Rust is compiled with AddressSanitizer, overflow checks and debug assertions, which bring the standard library's checks of
# undefined behaviour with them (-Zub-checks); Rust has no other UndefinedBehaviorSanitizer. C has both: scripts/fuzz-cc.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh fuzz
. scripts/path.sh
export RUSTC_BOOTSTRAP=1
say() { printf 'fuzz: %s\n' "$*" >&2; }
cargo fuzz --version >/dev/null 2>&1 || cargo install --locked --quiet cargo-fuzz --root target/tools

sanitizer=${FUZZ_SANITIZER:-address}
# Packages of some distributions leave the sanitizers' runtime out.
if [ "$sanitizer" = address ] && ! ls "$(rustc --print sysroot)"/lib/rustlib/*/lib/librustc-*_rt.asan.a >/dev/null 2>&1; then
    say "this compiler ($(rustc --version)) has no runtime of AddressSanitizer: without it"
    sanitizer=none
fi
# Beyond what the reader has, AddressSanitizer holds freed memory back for a while, and pads what is allocated.
memory_mb=512
if [ "$sanitizer" = address ]; then
    memory_mb=1536
    export CC_x86_64_unknown_linux_gnu=$PWD/scripts/fuzz-cc.sh CC_aarch64_unknown_linux_gnu=$PWD/scripts/fuzz-cc.sh
    export ASAN_OPTIONS="quarantine_size_mb=64:allocator_may_return_null=0:${ASAN_OPTIONS:-}"
fi
# Checks are on, what fails can be located, and nothing is linked for minutes.
export CARGO_PROFILE_RELEASE_DEBUG=1 CARGO_PROFILE_RELEASE_STRIP=none CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true
export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
# Other flags, other objects.
build=fuzz/target/$sanitizer
logs=fuzz/target/logs
mkdir -p "$logs"
read -r -a targets <<<"${FUZZ_TARGETS:-$(cargo fuzz list | paste -sd' ')}"
say "building with sanitizer $sanitizer"
if [ ${#targets[@]} = 1 ]; then only=("${targets[0]}"); else only=(); fi
cargo fuzz build --features targets --sanitizer "$sanitizer" --target-dir "$build" "${only[@]}"

failed=()
for target in "${targets[@]}"; do
    # What it has found so far, and what it begins from.
    mkdir -p "fuzz/corpus/$target"
    folders=("fuzz/corpus/$target")
    [[ $target == recording || $target == pcap_to_name ]] && folders+=(crates/yuzuri-trace/tests/golden)
    [[ $target == capture || $target == pcap_to_name ]] && folders+=(crates/yuzuri-capture/tests/odd)
    [[ $target == scenario ]] && folders+=(scenarios)
    [[ -d fuzz/seeds/$target ]] && folders+=("fuzz/seeds/$target")
    # Captures come from anywhere, and are taken apart furthest.
    seconds=60
    [[ $target == capture || $target == identify || $target == pcap_to_name ]] && seconds=600
    [ -z "${FUZZ_HOURS:-}" ] || seconds=$(awk -v hours="$FUZZ_HOURS" 'BEGIN { printf "%d", hours * 3600 }')
    seconds=${FUZZ_SECONDS:-$seconds}
    say "$target for $seconds s"
    cargo fuzz run --features targets --sanitizer "$sanitizer" --target-dir "$build" "$target" "${folders[@]}" -- \
        -max_total_time="$seconds" -timeout=25 -rss_limit_mb=$memory_mb -malloc_limit_mb=512 -print_final_stats=1 \
        2>&1 | tee "$logs/$target.log" >&2 || failed+=("$target")
done

# The fuzzer's own figures: edges of the program that were reached, features (edges by how often, and comparisons), inputs kept.
printf '\n| target | executions | edges reached | features | inputs kept | result |\n|---|---|---|---|---|---|\n'
for target in "${targets[@]}"; do
    result=held
    [[ " ${failed[*]-} " != *" $target "* ]] || result="**failed**: $(grep -aoE 'fuzz/artifacts/[^ ]+' "$logs/$target.log" | tail -n 1)"
    awk -v target="$target" -v result="$result" '
        / cov: [0-9]/ { for (n = 1; n < NF; n++) { if ($n == "cov:") cov = $(n + 1); if ($n == "ft:") ft = $(n + 1)
            if ($n == "corp:") { split($(n + 1), kept, "/"); corp = kept[1] } } }
        /^stat::number_of_executed_units:/ { runs = $2 }
        END { printf "| %s | %s | %s | %s | %s | %s |\n", target, runs, cov, ft, corp, result }' "$logs/$target.log"
done
[ ${#failed[@]} = 0 ]
