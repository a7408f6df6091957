#!/usr/bin/env bash
# Replaces cargo for maturin (CARGO=scripts/maturin-cargo.sh). `cargo rustc` would build one package
# with its own features, and rebuild all its dependencies for them. This script builds the extension
# module like the workspace's tests, from what they have built.
set -euo pipefail
cargo=${YUZURI_CARGO:-cargo}
[ "${1:-}" = rustc ] || exec "$cargo" "$@"
shift
arguments=()
while [ $# != 0 ] && [ "$1" != -- ]; do
    case $1 in
    # The package and the crate type are in its Cargo.toml.
    --manifest-path | --crate-type | -p | --package) shift 2 ;;
    *) arguments+=("$1") && shift ;;
    esac
done
# Arguments after -- are for the compilation of one package only. A wheel for tests need not be
# stripped.
case "$*" in
"" | -- | "-- -C strip=symbols") ;;
*) echo "maturin-cargo: maturin passes arguments that cannot apply to a whole workspace: $*" >&2 && exit 1 ;;
esac
# Building examples makes crates use the features that tests need, as in all tests of the workspace.
exec "$cargo" build --workspace --examples "${arguments[@]}"
