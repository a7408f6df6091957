# shellcheck shell=bash
# Functions for building for arm64 on another architecture, to be sourced in the root of the tree
# after path.sh. The sourcing script must define `say`. Run `scripts/setup.sh vm` or `static` first.

# Rust's standard library for arm64, for the compiler in use. If it is missing, rustup installs it
# for its own compilers. For a packaged compiler, the arm64 package of exactly the same version is
# unpacked into target/tools, and RUSTC is set to a wrapper that finds it there: dpkg's list of
# architectures stays unchanged.
rust_arm64() {
    local triplet=aarch64-unknown-linux-gnu libraries compiler package version suffix name folder state host
    libraries=$(rustc --print target-libdir --target $triplet)
    ! compgen -G "$libraries/libstd-*.rlib" >/dev/null || return 0
    compiler=$(readlink -f "$(command -v rustc)")
    package=$(dpkg -S "$compiler" 2>/dev/null | cut -d: -f1) || true
    if [ -z "$package" ]; then
        say "rustup fetches Rust's library for $triplet (30 MB to download)"
        command -v rustup >/dev/null && rustup target add $triplet >&2 && return
        say "Rust's library for $triplet is needed, and rustup could not fetch it: is its server reachable? Or take a compiler from a package: $(rust_arm64_advice)"
        return 1
    fi
    # rustc, rustc-web, rustc-1.89: libstd-rust-dev, libstd-rust-web-dev, libstd-rust-1.89-dev.
    suffix=${package#rustc}
    name=libstd-rust$suffix-dev
    # shellcheck disable=SC2016
    version=$(dpkg-query -W -f '${Version}' "$package")
    host=$(rustc -vV | sed -n 's/^host: //p')
    folder=$PWD/target/tools/rust-arm64-$version
    if [ ! -d "$folder" ]; then
        state=$(mktemp -d)
        # Download to a folder that nothing else uses; a failed download leaves nothing behind.
        say "fetching $name $version for arm64 (40 MB to download, 130 MB on disk)"
        if ! apt_arm64 "$state" "$name:arm64=$version"; then
            tail -n 5 "$state/log" >&2
            rm -rf "$state"
            say "apt offers no $name $version for arm64: is a package mirror reachable, and does it carry arm64 (Ubuntu's own does not)? Else: $(rust_arm64_advice)"
            return 1
        fi
        dpkg-deb -x "$state"/*.deb "$state/unpacked"
        mkdir -p "$state/root/bin" "$state/root/lib/rustlib"
        mv "$state/unpacked/usr/lib/rustlib/$triplet" "$state/root/lib/rustlib/"
        # Procedural macros and build scripts run on this machine.
        ln -s "$(rustc --print sysroot)/lib/rustlib/$host" "$state/root/lib/rustlib/$host"
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
rust_arm64_advice() { echo "install Rust with rustup, and \`rustup target add aarch64-unknown-linux-gnu\`"; }

# apt_arm64 FOLDER PACKAGE: downloads a package for arm64 from the archives of this machine's apt,
# with a separate apt state.
apt_arm64() {
    local state=$1 package=$2 settings
    mkdir -p "$state/lists/partial" "$state/archives/partial"
    touch "$state/status"
    settings=(-o "Dir::State=$state" -o "Dir::State::lists=$state/lists" -o "Dir::State::status=$state/status"
        -o "Dir::Cache=$state" -o "Dir::Cache::archives=$state/archives" -o Dir::Cache::pkgcache=pkgcache.bin
        -o APT::Sandbox::User=root -o APT::Architectures::=arm64
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false)
    # An archive without arm64 is not an error; what matters is whether the package is found.
    LC_ALL=C apt-get -q "${settings[@]}" update >"$state/log" 2>&1 || true
    (cd "$state" && LC_ALL=C apt-get -q "${settings[@]}" download "$package" >>"$state/log" 2>&1)
}

# cross_arm64 FOLDER: sets compilers and libraries; FOLDER is the output of `yuzuri-vm cross arm64`.
cross_arm64() {
    local root=$1
    if [ "$(uname -m)" = aarch64 ]; then return; fi
    rust_arm64 || return 1
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
    export AR_aarch64_unknown_linux_gnu=aarch64-linux-gnu-ar
    export LIBBPF_SYS_LIBRARY_PATH_aarch64_unknown_linux_gnu=$root/usr/lib/aarch64-linux-gnu
    export LIBBPF_SYS_EXTRA_CFLAGS="-idirafter $root/usr/include"
}
