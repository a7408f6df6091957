# shellcheck shell=bash
# Functions for building for arm64 and armhf (armv7 with hardware floating point) on another
# architecture, to be sourced in the root of the tree after path.sh. Architectures have Debian's
# names. The sourcing script must define `say`. Run `scripts/setup.sh vm` or `static` first.

# debian_name ARCHITECTURE: Debian's name of x86_64, aarch64 or armv7; fails for others.
debian_name() {
    case $1 in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    armv7) echo armhf ;;
    *) return 1 ;;
    esac
}

# rust_target ARCHITECTURE: Rust's name of the target.
rust_target() {
    case $1 in
    amd64) echo x86_64-unknown-linux-gnu ;;
    arm64) echo aarch64-unknown-linux-gnu ;;
    armhf) echo armv7-unknown-linux-gnueabihf ;;
    *) say "no target is known for $1"; return 1 ;;
    esac
}

# gnu_triplet ARCHITECTURE: the prefix of GNU tools, and Debian's folder of libraries.
gnu_triplet() {
    case $1 in
    amd64) echo x86_64-linux-gnu ;;
    arm64) echo aarch64-linux-gnu ;;
    armhf) echo arm-linux-gnueabihf ;;
    *) say "no GNU tools are known for $1"; return 1 ;;
    esac
}

# rust_library ARCHITECTURE: Rust's standard library, for the compiler in use (RUSTC, or that in
# PATH). If it is missing, rustup installs it for its own compilers. For a packaged compiler, the
# architecture's package of exactly the same version is unpacked into target/tools, and RUSTC is set
# to a wrapper that finds it there: dpkg's list of architectures stays unchanged.
rust_library() {
    local arch=$1 triplet libraries compiler package version suffix name folder state host
    triplet=$(rust_target "$arch")
    libraries=$("${RUSTC:-rustc}" --print target-libdir --target "$triplet")
    ! compgen -G "$libraries/libstd-*.rlib" >/dev/null || return 0
    compiler=$(readlink -f "$(command -v "${RUSTC:-rustc}")")
    package=$(dpkg -S "$compiler" 2>/dev/null | cut -d: -f1) || true
    if [ -z "$package" ]; then
        say "rustup fetches Rust's library for $triplet (30 MB to download)"
        command -v rustup >/dev/null && rustup target add "$triplet" >&2 && return
        say "Rust's library for $triplet is needed, and rustup could not fetch it: is its server reachable? Or take a compiler from a package (RUSTC=/usr/bin/rustc): $(rust_library_advice "$triplet")"
        return 1
    fi
    # rustc, rustc-web, rustc-1.89: libstd-rust-dev, libstd-rust-web-dev, libstd-rust-1.89-dev.
    suffix=${package#rustc}
    name=libstd-rust$suffix-dev
    # shellcheck disable=SC2016
    version=$(dpkg-query -W -f '${Version}' "$package")
    host=$("$compiler" -vV | sed -n 's/^host: //p')
    folder=$PWD/target/tools/rust-$arch-$version
    if [ ! -d "$folder" ]; then
        state=$(mktemp -d)
        # Download to a folder that nothing else uses; a failed download leaves nothing behind.
        say "fetching $name $version for $arch (40 MB to download, 130 MB on disk)"
        if ! apt_foreign "$arch" "$state" "$name:$arch=$version"; then
            tail -n 5 "$state/log" >&2
            rm -rf "$state"
            say "apt offers no $name $version for $arch: is a package mirror reachable, and does it carry $arch (Ubuntu's own does not)? Else: $(rust_library_advice "$triplet")"
            return 1
        fi
        dpkg-deb -x "$state"/*.deb "$state/unpacked"
        mkdir -p "$state/root/bin" "$state/root/lib/rustlib"
        mv "$state/unpacked/usr/lib/rustlib/$triplet" "$state/root/lib/rustlib/"
        # Procedural macros and build scripts run on this machine.
        ln -s "$("$compiler" --print sysroot)/lib/rustlib/$host" "$state/root/lib/rustlib/$host"
        # Pass the path in a wrapper, not as a flag: flags are part of each symbol's name, and the
        # folder differs between machines.
        # shellcheck disable=SC2016
        printf '#!/bin/sh\nexec %s --sysroot "$(dirname "$0")/.." "$@"\n' "$compiler" >"$state/root/bin/rustc"
        chmod +x "$state/root/bin/rustc"
        mkdir -p target/tools
        mv -T "$state/root" "$folder"
        rm -rf "$state"
    fi
    export RUSTC=$folder/bin/rustc
}
rust_library_advice() { echo "install Rust with rustup, and \`rustup target add $1\`"; }

# apt_foreign ARCHITECTURE FOLDER PACKAGE: downloads a package for it from the archives of this
# machine's apt, with a separate apt state.
apt_foreign() {
    local arch=$1 state=$2 package=$3 settings
    mkdir -p "$state/lists/partial" "$state/archives/partial"
    touch "$state/status"
    settings=(-o "Dir::State=$state" -o "Dir::State::lists=$state/lists" -o "Dir::State::status=$state/status"
        -o "Dir::Cache=$state" -o "Dir::Cache::archives=$state/archives" -o Dir::Cache::pkgcache=pkgcache.bin
        -o APT::Sandbox::User=root -o "APT::Architectures::=$arch"
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false)
    # An archive without the architecture is not an error; what matters is whether the package is
    # found.
    LC_ALL=C apt-get -q "${settings[@]}" update >"$state/log" 2>&1 || true
    (cd "$state" && LC_ALL=C apt-get -q "${settings[@]}" download "$package" >>"$state/log" 2>&1)
}

# cross ARCHITECTURE FOLDER: sets compilers and libraries; FOLDER is the output of
# `yuzuri-vm cross ARCHITECTURE`. Nothing is set on a machine of that architecture.
cross() {
    local arch=$1 root=$2 target gnu
    if [ "$(dpkg --print-architecture)" = "$arch" ]; then return; fi
    rust_library "$arch" || return 1
    target=$(rust_target "$arch" | tr - _)
    gnu=$(gnu_triplet "$arch")
    export "CARGO_TARGET_${target^^}_LINKER=$gnu-gcc" "CC_$target=$gnu-gcc" "AR_$target=$gnu-ar"
    export "LIBBPF_SYS_LIBRARY_PATH_$target=$root/usr/lib/$gnu"
    export LIBBPF_SYS_EXTRA_CFLAGS="-idirafter $root/usr/include"
}
