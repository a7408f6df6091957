#!/usr/bin/env bash
# Runs the engine of the Android app for arm64 under a filter of system calls as Android's, on Debian's kernels for arm64 in QEMU:
# android-kernel.sh [KERNEL...] (6.1-arm64 by default). What is tested is the very starter that is in the package, and the
# engine. ENGINE_AARCH64=path takes one that is there already.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh android
scripts/setup.sh vm
. scripts/path.sh
. scripts/android-base.sh
kernels=("$@")
[ ${#kernels[@]} != 0 ] || kernels=(6.1-arm64)
engine=${ENGINE_AARCH64:-}
[ -n "$engine" ] || engine=$(scripts/static-build.sh aarch64 | tail -n 1)
starter=$(starter aarch64)
forbid=$(forbid aarch64)
vm() { cargo run --quiet --locked -p yuzuri-vm -- "$@"; }
vm build "${kernels[@]}"
for kernel in "${kernels[@]}"; do
    vm run --quiet --kernel "$kernel" --timeout 600 \
        --file "$engine:/opt/engine" --file "$starter:/opt/starter" --file "$forbid:/opt/forbid" \
        --file android/src/test/forbidden-calls.sh:/opt/forbidden-calls.sh \
        sh /opt/forbidden-calls.sh /opt/forbid /opt/engine /opt/starter /tmp/forbidden
done
