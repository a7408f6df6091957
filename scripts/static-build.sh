#!/usr/bin/env bash
# Builds the command without shared libraries, in release mode: static-build.sh x86_64|aarch64|armv7
# [PROGRAM...] (default: yuzuri; the other one is yuzuri-identify). Prints the path of each. The
# same commit, compiler and libraries give identical bytes, wherever the tree is. `static-build.sh
# --libraries ARCHITECTURE` prints the folder of Debian's libraries for it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
. scripts/cross.sh

say() { printf 'static: %s\n' "$*" >&2; }
only=
if [ "${1:-}" = --libraries ]; then
    only=libraries
    shift
fi
usage() { say "usage: static-build.sh x86_64|aarch64|armv7 [yuzuri|yuzuri-identify...]"; exit 2; }

arch=${1:-}
debian=$(debian_name "$arch") || usage
triplet=$(rust_target $debian)
shift
programs=("$@")
[ ${#programs[@]} != 0 ] || programs=(yuzuri)
for program in "${programs[@]}"; do
    case $program in
    yuzuri | yuzuri-identify) ;;
    *) usage ;;
    esac
done

scripts/setup.sh static $debian
base=${CARGO_TARGET_DIR:-$PWD/target}
case $base in /*) ;; *) base=$PWD/$base ;; esac
# Use pinned versions of Debian's libraries on every machine; those of other distributions need
# further libraries.
libraries() { cargo run --quiet --locked --target-dir "$base/static/vm" -p yuzuri-vm -- cross "$1"; }
root=$(libraries $debian)
if [ "$only" = libraries ]; then
    echo "$root"
    exit
fi
make --no-print-directory ui >&2
if [ "$arch" != "$(uname -m)" ]; then
    [ "$arch" != x86_64 ] || { say "programs for $arch can only be built on $arch"; exit 1; }
    cross $debian "$root"
    # Build scripts are linked in the same way.
    host=$(libraries amd64)
    export LIBBPF_SYS_LIBRARY_PATH_x86_64_unknown_linux_gnu=$host/usr/lib/x86_64-linux-gnu
else
    export "LIBBPF_SYS_LIBRARY_PATH_${triplet//-/_}=$root/usr/lib/$(gnu_triplet $debian)"
fi
# Remove paths of the build machine from error messages and compiler metadata.
home=${CARGO_HOME:-$HOME/.cargo}
flags="-C target-feature=+crt-static --remap-path-prefix=$home=/cargo --remap-path-prefix=$base=/target --remap-path-prefix=$PWD=/yuzuri"
maps="-ffile-prefix-map=$home=/cargo -ffile-prefix-map=$base=/target -ffile-prefix-map=$PWD=/yuzuri"
export "CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$triplet")_RUSTFLAGS=$flags"
export "CFLAGS_${triplet//-/_}=$maps"
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH

# Static linking adds 1 MB. To compensate, relocations are packed, and identical functions are merged unless something
# takes their address. Cargo.toml says which crates are compiled for size.
link=(-C strip=symbols -C link-arg=-fuse-ld=lld -C link-arg=-Wl,--pack-dyn-relocs=relr -C link-arg=-Wl,--icf=safe)

for program in "${programs[@]}"; do
    began=$SECONDS
    say "building $program for $arch with $(rustc --version)"
    cargo rustc --release --locked --target "$triplet" --target-dir "$base/static" -p "$program" --bin "$program" -- "${link[@]}" >&2
    file=$base/static/$triplet/release/$program
    # The program may be position-independent or not; it must not need a dynamic loader.
    ! readelf -lW "$file" | grep -q INTERP || { say "$file needs shared libraries"; exit 1; }
    say "$program for $arch: $(stat -c %s "$file") bytes, after $((SECONDS - began)) s"
    echo "$file"
done
