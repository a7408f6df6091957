#!/usr/bin/env bash
# Checks formatting and lints of Rust, C, TypeScript, shell and Python, and the links of the
# documentation. Reports what is skipped because a tool is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
# The latest clippy with which the tree was clean. A newer one may have further lints; its warnings
# are shown but do not fail, since the tree has not become worse.
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
    # Also compile the fuzz targets, without linking: naming a library that does not exist avoids
    # building the C++ one.
    CUSTOM_LIBFUZZER_PATH=$PWD/target/no-libfuzzer.a \
        cargo clippy --workspace --all-targets --features yuzuri-fuzz/targets --locked --quiet --keep-going -- "${deny[@]}"
else
    skip "cargo clippy" "clippy is not installed"
fi
if command -v clang-format >/dev/null; then
    clang-format --dry-run --Werror crates/yuzuri-kernel/bpf/*.[ch] crates/yuzuri-gate/bpf/*.[ch] crates/yuzuri-kernel/bpf/monitor/*.h
else
    skip "clang-format" "it is not installed"
fi
npm --prefix crates/yuzuri-web/ui run --silent check
bash -n scripts/*.sh tests/bare/*.sh .ci/run
python3 -m compileall -q scripts
scripts/wrap-comments.py --check crates fuzz
scripts/check-links.py
scripts/check-map.py
scripts/check-snippets.py
# Without network access, and with the installed release of cargo-deny.
if command -v cargo-deny >/dev/null; then
    scripts/deny.sh --offline
else
    skip "cargo deny" "it is not installed: make deny builds it (minutes) and runs it, as make dist does"
fi
echo "lint: clean"
