#!/usr/bin/env bash
# Renews the README's picture: the page while `make demo` runs, some seconds after sharing has
# started. As root; takes 50 s.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
page=crates/yuzuri-web/tests/page
CHROMIUM=$(scripts/chromium.sh) || { echo "picture: no Chromium is installed (scripts/chromium.sh)" >&2; exit 1; }
export CHROMIUM
[ -e $page/node_modules/.package-lock.json ] || npm --prefix $page ci --no-audit --no-fund --loglevel=error
said=$(mktemp)
demo=''
end() {
    trap - EXIT
    [ -z "$demo" ] || { kill -INT "$demo" 2>/dev/null || true; wait "$demo" || true; }
    rm -f "$said"
}
trap end EXIT
trap 'exit 130' INT TERM
make --no-print-directory demo-programs
DEMO_SECONDS=50 DEMO_WEB=127.0.0.1:0 scripts/demo.sh 2>"$said" &
demo=$!
until address=$(grep -om1 'http://[^ ]*' "$said"); do
    kill -0 $demo 2>/dev/null || { cat "$said" >&2; exit 1; }
    sleep 0.2
done
# Sharing begins in the middle; from then on the queue drains.
LC_ALL=en_US.UTF-8 node $page/picture.mjs "$address" 40 docs/pictures/page.png
echo "picture: docs/pictures/page.png"
