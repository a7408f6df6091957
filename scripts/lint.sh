#!/usr/bin/env bash
# Formatting and lints: Rust, C, TypeScript, shell, Python, and the links of the documentation. Says what it skips for want of the tool.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
# The newest clippy with which the tree was last clean. A newer one may know lints that this one does not: what it says is
# shown, but does not fail, as the tree is not worse for it.
CLIPPY_KNOWN=1.96
skip() { echo "lint: $1: skipped: $2"; }

if cargo fmt --version >/dev/null 2>&1; then
    cargo fmt --all --check
else
    skip "cargo fmt" "rustfmt is not installed"
fi
if cargo clippy --version >/dev/null 2>&1; then
    # "clippy 0.1.96 (...)" belongs to Rust 1.96.
    minor=$(cargo clippy --version | sed -n 's/^clippy 0\.1\.\([0-9]*\).*/\1/p')
    deny=(-D warnings)
    if [ "${minor:-0}" -gt "${CLIPPY_KNOWN#1.}" ]; then
        deny=()
        echo "lint: clippy of Rust 1.$minor is newer than $CLIPPY_KNOWN: its warnings are shown and do not fail"
    fi
    # The fuzz targets are compiled, too, but not linked: a library that is named here and does not exist saves that of C++.
    CUSTOM_LIBFUZZER_PATH=$PWD/target/no-libfuzzer.a \
        cargo clippy --workspace --all-targets --features yuzuri-fuzz/targets --locked --quiet --keep-going -- "${deny[@]}"
else
    skip "cargo clippy" "clippy is not installed"
fi
if command -v clang-format >/dev/null; then
    clang-format --dry-run --Werror crates/yuzuri-kernel/bpf/*.[ch] crates/yuzuri-kernel/bpf/monitor/*.h
else
    skip "clang-format" "it is not installed"
fi
npm --prefix crates/yuzuri-web/ui run --silent check
bash -n scripts/*.sh tests/bare/*.sh .ci/run
python3 -m compileall -q scripts
scripts/check-links.py
scripts/check-map.py
scripts/check-snippets.py
# Without the network, and with the release of cargo-deny that is there.
if command -v cargo-deny >/dev/null; then
    scripts/deny.sh --offline
else
    skip "cargo deny" "it is not installed: make deny builds it (minutes) and runs it, as make dist does"
fi
echo "lint: clean"
