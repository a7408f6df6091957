#!/usr/bin/env bash
# What maturin takes for cargo (CARGO=scripts/maturin-cargo.sh). `cargo rustc` builds one package with its own features, and
# for them all its dependencies anew; this builds the extension module as the workspace's tests do, of what they have built.
set -euo pipefail
cargo=${YUZURI_CARGO:-cargo}
[ "${1:-}" = rustc ] || exec "$cargo" "$@"
shift
arguments=()
while [ $# != 0 ] && [ "$1" != -- ]; do
    case $1 in
    # Which package, and as what, is in its Cargo.toml.
    --manifest-path | --crate-type | -p | --package) shift 2 ;;
    *) arguments+=("$1") && shift ;;
    esac
done
# What comes after -- is for the compiler of one package alone. A wheel for tests need not be stripped.
case "$*" in
"" | -- | "-- -C strip=symbols") ;;
*) echo "maturin-cargo: maturin wants what cannot be had for a whole workspace: $*" >&2 && exit 1 ;;
esac
# Examples only because with them crates take the features that tests want, as everywhere in the tests of the workspace.
exec "$cargo" build --workspace --examples "${arguments[@]}"
