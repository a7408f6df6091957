#!/usr/bin/env bash
# Tests the page in a real Chromium, with a server that generates a stream of known values:
#   page-test.sh                    checks what the page shows and does
#   page-test.sh --load [MINUTES]   frame rate and memory with 200 flows at 1000 samples/s (2 minutes)
#   page-test.sh --hour             the same for an hour
set -euo pipefail
cd "$(dirname "$0")/.."
page=crates/yuzuri-web/tests/page
profile=debug flags=() script=run.mjs
case "${1:-}" in
--load) profile=release flags=(--release) script=load.mjs; export MINUTES=${2:-${MINUTES:-2}}; set -- ;;
--hour) profile=release flags=(--release) script=load.mjs; export MINUTES=60; set -- ;;
esac
. scripts/path.sh
CHROMIUM=$(scripts/chromium.sh) || { echo "page in Chromium: skipped: no Chromium is installed (scripts/chromium.sh)"; exit 0; }
export CHROMIUM
# The test's server contains the page.
make --no-print-directory --silent ui
[ -e $page/node_modules/.package-lock.json ] || npm --prefix $page ci --no-audit --no-fund --loglevel=error
if [ $script = run.mjs ]; then
    # Build the whole workspace, as the tests do.
    cargo build --workspace --locked --quiet --example feed --bin yuzuri
else
    cargo build --locked --quiet "${flags[@]}" -p yuzuri-web --example feed
fi
# Use real daemons if they can run.
if [ $script = run.mjs ] && [ "$(id -u)" = 0 ]; then
    export YUZURI=${CARGO_TARGET_DIR:-$PWD/target}/$profile/yuzuri
fi
# Without a locale some versions of Chromium report the language "en-US@posix", which number
# formatting rejects.
FEED=${CARGO_TARGET_DIR:-target}/$profile/examples/feed exec env LC_ALL=en_US.UTF-8 node $page/$script "$@"
