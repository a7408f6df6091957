#!/usr/bin/env bash
# Fuzzes every reader of untrusted input: capture readers for 10 minutes, the others for 1 minute.
# FUZZ_SECONDS=60 or FUZZ_HOURS=1 sets the time of each target, FUZZ_TARGETS="message http" selects
# targets, FUZZ_SANITIZER=none disables the sanitizers. A stable compiler is sufficient.
#
# Rust is compiled with AddressSanitizer, overflow checks and debug assertions, which include the
# standard library's checks for undefined behaviour (-Zub-checks); Rust has no other
# UndefinedBehaviorSanitizer. C is compiled with both sanitizers: scripts/fuzz-cc.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh fuzz
. scripts/path.sh
export RUSTC_BOOTSTRAP=1
say() { printf 'fuzz: %s\n' "$*" >&2; }
cargo fuzz --version >/dev/null 2>&1 || cargo install --locked --quiet cargo-fuzz --root target/tools

sanitizer=${FUZZ_SANITIZER:-address}
# Some distributions' packages lack the sanitizer runtime.
if [ "$sanitizer" = address ] && ! ls "$(rustc --print sysroot)"/lib/rustlib/*/lib/librustc-*_rt.asan.a >/dev/null 2>&1; then
    say "this compiler ($(rustc --version)) has no runtime of AddressSanitizer: without it"
    sanitizer=none
fi
# AddressSanitizer needs memory beyond the reader's own: it quarantines freed memory and pads
# allocations.
memory_mb=512
if [ "$sanitizer" = address ]; then
    memory_mb=1536
    export CC_x86_64_unknown_linux_gnu=$PWD/scripts/fuzz-cc.sh CC_aarch64_unknown_linux_gnu=$PWD/scripts/fuzz-cc.sh
    export ASAN_OPTIONS="quarantine_size_mb=64:allocator_may_return_null=0:${ASAN_OPTIONS:-}"
fi
# Enable checks and locatable failures, and avoid links that take minutes.
export CARGO_PROFILE_RELEASE_DEBUG=1 CARGO_PROFILE_RELEASE_STRIP=none CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true
export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
# Other flags produce other objects.
build=fuzz/target/$sanitizer
logs=fuzz/target/logs
mkdir -p "$logs"
read -r -a targets <<<"${FUZZ_TARGETS:-$(cargo fuzz list | paste -sd' ')}"
say "building with sanitizer $sanitizer"
if [ ${#targets[@]} = 1 ]; then only=("${targets[0]}"); else only=(); fi
cargo fuzz build --features targets --sanitizer "$sanitizer" --target-dir "$build" "${only[@]}"

failed=()
for target in "${targets[@]}"; do
    # The corpus found so far, and the seeds.
    mkdir -p "fuzz/corpus/$target"
    folders=("fuzz/corpus/$target")
    [[ $target == recording || $target == pcap_to_name ]] && folders+=(crates/yuzuri-trace/tests/golden)
    [[ $target == capture || $target == pcap_to_name ]] && folders+=(crates/yuzuri-capture/tests/odd)
    [[ $target == scenario ]] && folders+=(scenarios)
    [[ -d fuzz/seeds/$target ]] && folders+=("fuzz/seeds/$target")
    # Captures come from untrusted sources and are decoded furthest.
    seconds=60
    [[ $target == capture || $target == identify || $target == pcap_to_name ]] && seconds=600
    [ -z "${FUZZ_HOURS:-}" ] || seconds=$(awk -v hours="$FUZZ_HOURS" 'BEGIN { printf "%d", hours * 3600 }')
    seconds=${FUZZ_SECONDS:-$seconds}
    say "$target for $seconds s"
    cargo fuzz run --features targets --sanitizer "$sanitizer" --target-dir "$build" "$target" "${folders[@]}" -- \
        -max_total_time="$seconds" -timeout=25 -rss_limit_mb=$memory_mb -malloc_limit_mb=512 -print_final_stats=1 \
        2>&1 | tee "$logs/$target.log" >&2 || failed+=("$target")
done

# The fuzzer's own figures: edges reached, features (edges by count, and comparisons), inputs kept.
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
