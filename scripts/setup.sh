#!/usr/bin/env bash
# Installs what is missing to build (setup.sh build), test (setup.sh test) or measure (setup.sh bench) Yuzuri on
# Debian or Ubuntu. What is there already is left alone. Prints nothing when there is nothing to do.
set -euo pipefail

RUST_NEEDED=1.88
NODE_NEEDED=18
missing=()

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
# want COMMAND PACKAGE: the package where the command is not there.
want() { have "$1" || missing+=("$2"); }
# at_least HAVE NEEDED: compares version numbers.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

updated=no
apt() {
    have apt-get || fail "no apt-get here: install by hand: $*"
    [ "$(id -u)" = 0 ] || fail "installing needs root: run 'apt-get install $*' as root, then again"
    if [ $updated = no ]; then
        apt-get update -qq >/dev/null || fail "apt-get update failed: is a package mirror reachable?"
        updated=yes
    fi
    say "installing $*"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null ||
        fail "apt-get could not install: $*"
}
# offered PACKAGE: the version that apt would install, nothing where it knows none.
offered() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: \([0-9][^-+~ ]*\).*/\1/p'; }

rust_version() { cargo --version 2>/dev/null | cut -d' ' -f2; }

rust() {
    export PATH="$HOME/.cargo/bin:$PATH"
    if have cargo && at_least "$(rust_version)" $RUST_NEEDED; then
        return
    fi
    [ $updated = yes ] || { have apt-get && [ "$(id -u)" = 0 ] && apt-get update -qq >/dev/null && updated=yes; }
    # Debian's and Ubuntu's own compilers may be too old; beside them lie newer ones, kept for building browsers.
    for suffix in "" -web -1.95 -1.94 -1.93 -1.92 -1.91 -1.90 -1.89 -1.88; do
        local version
        version=$(offered "cargo$suffix")
        # cargo's package is numbered after the compiler in all but old releases (0.x).
        if [ -n "$version" ] && at_least "$version" $RUST_NEEDED; then
            apt "cargo$suffix" "rustc$suffix"
            break
        fi
    done
    if ! have cargo || ! at_least "$(rust_version)" $RUST_NEEDED; then
        if have rustup || [ -n "$(offered rustup)" ]; then
            have rustup || apt rustup
            rustup toolchain install stable --profile minimal -c clippy -c rustfmt >&2 && rustup default stable >&2
        fi
    fi
    have cargo && at_least "$(rust_version)" $RUST_NEEDED ||
        fail "Rust $RUST_NEEDED or later is needed and no package of it was found: install it with rustup, then again"
}

node() {
    local version=0
    have node && version=$(command node --version | tr -d v)
    at_least "$version" $NODE_NEEDED && have npm || apt nodejs npm
}

build() {
    want clang clang
    want gcc gcc
    want make make
    want pkg-config pkg-config
    [ -e /usr/include/libelf.h ] || missing+=(libelf-dev)
    [ -e /usr/include/zlib.h ] || missing+=(zlib1g-dev)
    [ -e /usr/include/stdio.h ] || missing+=(libc6-dev)
    want ip iproute2
    want ethtool ethtool
    [ ${#missing[@]} = 0 ] || apt ca-certificates "${missing[@]}"
    missing=()
    rust
    node
}

tests() {
    want iperf3 iperf3
    want nft nftables
    want tmux tmux
    want setpriv util-linux
    want chromium chromium
    want clang-format clang-format
    want nstat iproute2
    python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
    [ ${#missing[@]} = 0 ] || apt "${missing[@]}"
    missing=()
    if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
        if [ -n "$(offered rustfmt-web)" ] && dpkg -s cargo-web >/dev/null 2>&1; then
            apt rustfmt-web rust-web-clippy
        elif have rustup; then
            rustup component add rustfmt clippy >&2 || say "rustfmt and clippy cannot be had: the lints will be skipped"
        else
            say "rustfmt and clippy cannot be had: the lints will be skipped"
        fi
    fi
}

bench() {
    want iperf3 iperf3
    want bpftrace bpftrace
    [ ${#missing[@]} = 0 ] || apt "${missing[@]}"
    missing=()
}

case "${1:-build}" in
build) build ;;
test) build; tests ;;
bench) build; bench ;;
*) fail "usage: setup.sh build|test|bench" ;;
esac
