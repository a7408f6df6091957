#!/usr/bin/env bash
# Tests that a report of `yuzuri identify --html` zooms, in a real Chromium: report-test.sh FILE.html
set -euo pipefail
cd "$(dirname "$0")/.."
page=crates/yuzuri-web/tests/page
. scripts/path.sh
CHROMIUM=$(scripts/chromium.sh) || { echo "report in Chromium: skipped: no Chromium is installed (scripts/chromium.sh)"; exit 0; }
export CHROMIUM
[ -e $page/node_modules/.package-lock.json ] || npm --prefix $page ci --no-audit --no-fund --loglevel=error
# As in page-test.sh.
exec env LC_ALL=en_US.UTF-8 node $page/report.mjs "$1"
