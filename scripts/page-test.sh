#!/usr/bin/env bash
# The page in real Chromium, against the server with a made-up stream of known values.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v chromium >/dev/null || { echo "page in Chromium: skipped: chromium is not installed"; exit 0; }
[ -e crates/yuzuri-web/tests/page/node_modules/.package-lock.json ] ||
    npm --prefix crates/yuzuri-web/tests/page ci --no-audit --no-fund --loglevel=error
profile=debug
if [ "${1:-}" = --load ]; then profile=release; fi
flags=()
[ $profile = debug ] || flags=(--release)
cargo build --locked --quiet "${flags[@]}" -p yuzuri-web --example feed
FEED=${CARGO_TARGET_DIR:-target}/$profile/examples/feed exec node crates/yuzuri-web/tests/page/run.mjs "$@"
