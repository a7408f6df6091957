#!/usr/bin/env bash
# Runs the Android app's arm64 engine under a seccomp filter like Android's, on Debian's arm64
# kernels in QEMU: android-kernel.sh [KERNEL...] (default: 6.1-arm64). Tests the starter that is in
# the package, and the engine. ENGINE_AARCH64=path uses an existing engine.
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
