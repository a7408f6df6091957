#!/usr/bin/env bash
# Installs missing dependencies for building, testing, measuring, comparing, fuzzing or packaging
# Yuzuri (setup.sh programs|build|test|bench|fuzz|soak|ns3|vm|static|dist|deny|book|android) on
# Debian or Ubuntu. Existing ones are not touched. Prints nothing if nothing is missing. It can be
# interrupted at any time and started again.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh

RUST_NEEDED=1.88
NODE_NEEDED=18
tools=target/tools/bin
missing=()
heartbeat=

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
# want COMMAND PACKAGE: requests the package if the command is missing.
want() { have "$1" || missing+=("$2"); }
# want_file FILE PACKAGE: requests the package if the file is missing.
want_file() { [ -e "$1" ] || missing+=("$2"); }
want_venv() { python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv); }
# at_least HAVE NEEDED: compares version numbers.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# --- long work ---

# quietly WHAT COMMAND...: runs a command. Every 20 s prints that it is still running, with its last
# line of output; if it fails, prints its last lines.
quietly() {
    local what=$1 log began=$SECONDS status=0
    shift
    log=$(mktemp)
    (
        beats=0
        while sleep 1 && kill -0 $$ 2>/dev/null; do
            beats=$((beats + 1))
            [ $((beats % 20)) != 0 ] || say "$what: $((SECONDS - began)) s: $(tail -n 1 "$log" | cut -c 1-90)"
        done
    ) &
    heartbeat=$!
    "$@" >"$log" 2>&1 </dev/null || status=$?
    kill $heartbeat 2>/dev/null || true
    wait $heartbeat 2>/dev/null || true
    heartbeat=
    [ $status = 0 ] || tail -n 20 "$log" >&2
    rm -f "$log"
    return $status
}
trap '[ -z "$heartbeat" ] || kill "$heartbeat" 2>/dev/null || true' EXIT

# --- apt ---

updated=no
# Several calls within a short time read the lists once.
lists_read=target/tools/lists-read
# Reads the package lists. A machine that has just been started may still be updating them itself.
read_lists() {
    local began=$SECONDS
    # The log is that of `quietly`.
    until LC_ALL=C apt-get -q update; do
        tail -n 4 "$log" | grep -q 'Could not get lock' && [ $((SECONDS - began)) -lt 600 ] || return 1
        echo "waiting for another apt to end"
        sleep 2
    done
}
update() {
    if [ $updated = yes ] || [ -n "$(find $lists_read -mmin -10 2>/dev/null)" ]; then return; fi
    have apt-get || fail "no apt-get here: install Rust $RUST_NEEDED, Node $NODE_NEEDED with npm, and by hand: ${missing[*]:-nothing else}"
    [ "$(id -u)" = 0 ] || fail "installing needs root: run it once as root, then again as this user; missing: ${missing[*]:-Rust or Node}"
    quietly "reading the package lists" read_lists || fail "apt-get update failed: is a package mirror reachable?"
    updated=yes
    mkdir -p "$(dirname $lists_read)"
    touch $lists_read
}
# offered PACKAGE: the version that apt would install; empty if apt does not know the package.
offered() { LC_ALL=C apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: \([0-9:]*:\)\{0,1\}\([0-9][^-+~ ]*\).*/\2/p'; }
# Installs all missing packages in one transaction.
install() {
    if [ ${#missing[@]} = 0 ]; then return; fi
    update
    local began=$SECONDS sizes
    sizes=$(LC_ALL=C apt-get install --assume-no --no-install-recommends "${missing[@]}" 2>/dev/null | sed -nE \
        's/^Need to get (.*) of archives.*/\1 to download/p; s/^After this operation, (.*) of additional.*/\1 on disk/p' |
        paste -sd, | sed 's/,/, /') || true
    say "installing ${missing[*]}${sizes:+ ($sizes)}"
    DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 LC_ALL=C quietly "installing" apt-get -q -y \
        -o DPkg::Lock::Timeout=600 install --no-install-recommends "${missing[@]}" ||
        fail "apt-get could not install: ${missing[*]}"
    say "installed after $((SECONDS - began)) s"
    missing=()
}

# --- Rust ---

# Otherwise rustup would download the toolchain of rust-toolchain.toml, even if another installed
# one is sufficient.
export RUSTUP_AUTO_INSTALL=0
new_enough() { at_least "$("$1" --version 2>/dev/null | cut -d' ' -f2)" $RUST_NEEDED; }
# Folders that may contain a compiler which is not the first in PATH, or not in PATH at all.
rust_folders() {
    ls -d /usr/lib/rust-*/bin 2>/dev/null | sort -V
    echo /usr/bin
    have rustup || return 0
    local toolchain
    for toolchain in stable $(rustup toolchain list 2>/dev/null | cut -d' ' -f1); do
        dirname "$(rustup which --toolchain "$toolchain" cargo 2>/dev/null)"
    done
}
# Uses an installed compiler that PATH does not find: target/tools/bin is first in PATH.
link_rust() {
    local folder= each tool
    # Dangling links would hide the existing compiler.
    if [ -L $tools/cargo ] && ! new_enough $tools/cargo; then rm -rf $tools; fi
    if [ -L $tools/cargo ]; then
        folder=$(dirname "$(readlink $tools/cargo)")
    elif have cargo && new_enough cargo; then
        return
    else
        for each in $(rust_folders); do
            if [ -x "$each/cargo" ] && new_enough "$each/cargo"; then folder=$each && break; fi
        done
        [ -n "$folder" ] || return 0
        say "using the compiler in $folder"
    fi
    mkdir -p $tools
    for tool in cargo rustc rustdoc rustfmt cargo-fmt cargo-clippy clippy-driver; do
        if [ -x "$folder/$tool" ]; then ln -sf "$folder/$tool" $tools/$tool; fi
    done
    hash -r
}
# The default compilers of Debian and Ubuntu may be too old. Both also package newer ones, for
# building browsers (cargo-web) or other programs (cargo-1.89). The oldest sufficient version is
# chosen, so that the choice is stable.
packaged_rust() {
    local suffix version
    for suffix in "" -web $(apt-cache pkgnames cargo-1. | sed -n 's/^cargo\(-1\.[0-9]*\)$/\1/p' | sort -V); do
        version=$(offered "cargo$suffix")
        # Old releases numbered cargo's package differently (0.x).
        if [ -n "$version" ] && at_least "$version" $RUST_NEEDED && [ -n "$(offered "rustc$suffix")" ]; then
            echo "cargo$suffix rustc$suffix"
            return
        fi
    done
}
by_rustup=no
compiler() {
    link_rust
    if have cargo && new_enough cargo; then return; fi
    if ! have rustup; then
        update
        local packages
        packages=$(packaged_rust)
        if [ -z "$packages" ] && [ -n "$(offered rustup)" ]; then packages=rustup; fi
        [ -n "$packages" ] || fail "Rust $RUST_NEEDED or later is needed and no package of it was found: install it with rustup, then run this again"
        # shellcheck disable=SC2086
        missing+=($packages)
        if [ "$packages" != rustup ]; then return; fi
    fi
    by_rustup=yes
}
# After installing packages: makes the compiler available.
finish_compiler() {
    if [ $by_rustup = yes ]; then
        say "rustup fetches Rust (some 100 MB to download, 700 MB on disk)"
        quietly "rustup" rustup toolchain install stable --profile minimal -c clippy -c rustfmt ||
            fail "rustup could not fetch Rust: is its server reachable?"
        by_rustup=no
    fi
    link_rust
    have cargo && new_enough cargo ||
        fail "Rust $RUST_NEEDED or later is needed, but the installed one is not found: cargo is $(command -v cargo || echo nowhere)"
}
# The rustfmt and clippy packages of the packaged compiler; rustup installs its own.
rust_lints() {
    if cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then return; fi
    local package suffix
    package=$(dpkg -S "$(readlink -f "$(command -v cargo)")" 2>/dev/null | cut -d: -f1) || true
    suffix=${package#cargo}
    if [ -n "$package" ] && [ -n "$(offered "rustfmt$suffix")" ] && [ -n "$(offered "rust$suffix-clippy")" ]; then
        missing+=("rustfmt$suffix" "rust$suffix-clippy")
    elif have rustup && quietly "rustup" rustup component add rustfmt clippy; then
        :
    else
        say "rustfmt and clippy are not available: these lints will be skipped"
    fi
}

# --- the rest ---

nodejs() {
    local version=0
    if have node; then version=$(node --version | tr -d v); fi
    if at_least "$version" $NODE_NEEDED; then
        want npm npm
        return
    fi
    update
    version=$(offered nodejs)
    at_least "${version:-0}" $NODE_NEEDED ||
        fail "Node $NODE_NEEDED or later is needed and apt offers ${version:-none}: install it from elsewhere, then run this again"
    missing+=(nodejs npm)
}

# For everything that is compiled except the page.
programs() {
    needs_programs
    install
    finish_compiler
}
build() {
    needs_programs
    nodejs
    install
    finish_compiler
}
needs_programs() {
    want clang clang
    want gcc gcc
    want make make
    want pkg-config pkg-config
    want_file /usr/include/libelf.h libelf-dev
    want_file /usr/include/zlib.h zlib1g-dev
    want_file /usr/include/stdio.h libc6-dev
    want_file /etc/ssl/certs/ca-certificates.crt ca-certificates
    want ip iproute2
    want ethtool ethtool
    compiler
}

# Ubuntu has Chromium only as a snap, which cannot access the files that a test passes to it. There
# it comes from npm, with libraries and a font from apt.
browser() {
    if scripts/chromium.sh >/dev/null; then return; fi
    update
    if [ -n "$(offered chromium)" ]; then
        missing+=(chromium)
    elif [ "$(uname -m)" = x86_64 ]; then
        missing+=(libnss3 fonts-dejavu-core)
    fi
}
finish_browser() {
    if scripts/chromium.sh >/dev/null; then return; fi
    if [ "$(uname -m)" != x86_64 ]; then
        say "no Chromium is available for $(uname -m): the page's test will be skipped (CHROMIUM=path sets one)"
        return
    fi
    say "fetching Chromium from npm (70 MB to download, 210 MB on disk)"
    quietly "fetching Chromium" scripts/chromium.sh --fetch || fail "Chromium could not be fetched"
}

tests() {
    want iperf3 iperf3
    want nft nftables
    want tmux tmux
    want pgrep procps
    want setpriv util-linux
    want clang-format clang-format
    # Its dependency wireshark-common contains dumpcap.
    want tshark tshark
    want_venv
    browser
    rust_lints
    install
    link_rust
    finish_browser
}

bench() {
    want iperf3 iperf3
    want bpftrace bpftrace
    browser
    install
    finish_browser
}

fuzz() {
    # The fuzzer is written in C++; clang compiles C with sanitizers.
    want c++ g++
    want clang clang
    install
}

# For the soak test: its namespaces, and its tools for querying the kernel.
soak() {
    want python3 python3
    want ss iproute2
    want sysctl procps
    install
}

ns3() {
    # The wheel of ns-3 contains no programs: scripts/ns3/cell.cc is built against it.
    want g++ g++
    want_venv
    install
}

# For unpacking Debian packages and building for arm64.
cross() {
    want dpkg-deb dpkg
    want_file /usr/share/keyrings/debian-archive-keyring.gpg debian-archive-keyring
    if [ "$(uname -m)" != aarch64 ]; then
        want aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
        want_file /usr/aarch64-linux-gnu/include/stdio.h libc6-dev-arm64-cross
    fi
    install
}

# For guests with other kernels: QEMU.
vm() {
    want qemu-system-x86_64 qemu-system-x86
    want qemu-system-aarch64 qemu-system-arm
    want depmod kmod
    cross
}

# For programs without shared libraries; static armhf: also for that architecture.
static() {
    want ld.lld lld
    want readelf binutils
    if [ "${1:-}" = armhf ]; then
        want arm-linux-gnueabihf-gcc gcc-arm-linux-gnueabihf
        want_file /usr/arm-linux-gnueabihf/include/stdio.h libc6-dev-armhf-cross
    fi
    cross
    # A cross compiler looks for its linker under this name.
    if [ "$(uname -m)" != aarch64 ]; then
        mkdir -p $tools
        ln -sf "$(command -v ld.lld)" $tools/aarch64-linux-gnu-ld.lld
    fi
    if [ "${1:-}" = armhf ]; then ln -sf "$(command -v ld.lld)" $tools/arm-linux-gnueabihf-ld.lld; fi
}

# For building packages, and for testing them in separate root folders and in guests.
ABOUT=0.9.3
dist() {
    want git git
    want python3 python3
    want strings binutils
    want dh debhelper
    want lintian lintian
    want debootstrap debootstrap
    want unshare util-linux
    want man man-db
    want zsh zsh
    want fish fish
    want systemd-nspawn systemd-container
    want ssh-keygen openssh-client
    if [ "$(uname -m)" != aarch64 ]; then want qemu-aarch64-static qemu-user-static; fi
    vm
    static
    if [ "$(cargo about --version 2>/dev/null)" != "cargo-about $ABOUT" ]; then
        say "building cargo-about $ABOUT (minutes)"
        quietly "building cargo-about" env CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
            cargo install --locked "cargo-about@$ABOUT" --features cli --root target/tools ||
            fail "cargo-about could not be built"
    fi
    deny
}

# For checking licences, sources and versions of all crates.
DENY=0.20.2
deny() {
    if [ "$(cargo deny --version 2>/dev/null)" = "cargo-deny $DENY" ]; then return; fi
    say "building cargo-deny $DENY (minutes)"
    quietly "building cargo-deny" env CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
        cargo install --locked "cargo-deny@$DENY" --root target/tools || fail "cargo-deny could not be built"
}

# For building the book from docs/, without mdBook's server and file watcher.
MDBOOK=0.5.4
book() {
    want python3 python3
    want cc gcc
    compiler
    install
    finish_compiler
    if [ "$(mdbook --version 2>/dev/null)" = "mdbook v$MDBOOK" ]; then return; fi
    say "building mdbook $MDBOOK (minutes; 300 MB on disk while it is built, 13 MB then)"
    quietly "building mdbook" env CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
        cargo install --locked "mdbook@$MDBOOK" --no-default-features --features search --root target/tools ||
        fail "mdbook could not be built"
}

# For the Android app: Java, and the Android tools in Debian. Maven downloads the rest.
android() {
    local version=0
    if have javac; then version=$(javac -version 2>&1 | sed 's/^javac \([0-9]*\).*/\1/'); fi
    if [ "${version:-0}" -lt 17 ]; then missing+=(default-jdk-headless); fi
    want mvn maven
    want aapt2 aapt
    want apksigner apksigner
    want zipalign zipalign
    want unzip unzip
    want zip zip
    want readelf binutils
    want mount mount
    cross
}

case "${1:-build}" in
programs) programs ;;
build) build ;;
test) build; tests ;;
bench) build; bench ;;
fuzz) build; fuzz ;;
soak) soak ;;
ns3) build; ns3 ;;
vm) build; vm ;;
static) build; static "${2:-}" ;;
dist) build; dist ;;
deny) build; deny ;;
book) book ;;
android) build; android ;;
*) fail "usage: setup.sh programs|build|test|bench|fuzz|soak|ns3|vm|static|dist|deny|book|android" ;;
esac
