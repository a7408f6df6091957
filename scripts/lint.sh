#!/usr/bin/env bash
# Formatting and lints: Rust, C, TypeScript. Says what it skips for want of the tool.
set -euo pipefail
cd "$(dirname "$0")/.."
skip() { echo "lint: $1: skipped: $2"; }

if cargo fmt --version >/dev/null 2>&1; then
    cargo fmt --all --check
    cargo fmt --manifest-path fuzz/Cargo.toml --check
else
    skip "cargo fmt" "rustfmt is not installed"
fi
if cargo clippy --version >/dev/null 2>&1; then
    cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
else
    skip "cargo clippy" "clippy is not installed"
fi
if command -v clang-format >/dev/null; then
    clang-format --dry-run --Werror crates/yuzuri-kernel/bpf/*.[ch]
else
    skip "clang-format" "it is not installed"
fi
npm --prefix crates/yuzuri-web/ui run --silent check
bash -n scripts/*.sh .ci/run
echo "lint: clean"
