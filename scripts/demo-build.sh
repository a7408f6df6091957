#!/usr/bin/env bash
# Builds the programs of `make demo`. If the page has not been built yet, it is built in parallel
# with the crates; only the crate that embeds it waits for it (crates/yuzuri-web/build.rs).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh

page() { make --no-print-directory ui; }
# Build only the features that the demo needs of these two programs: no conversion of recordings.
programs() { cargo build --profile demo --locked --no-default-features -p yuzuri -p yuzuri-lab; }

# Cargo looks for changes when it starts and would miss a page that is rebuilt while cargo runs.
if [ -e crates/yuzuri-web/ui/dist/.built ]; then
    page
    programs
    exit
fi
# The write end of the pipe is closed when every process that builds the page has ended.
exec {pipe}< <(exec {held}>&1 >&2 && page)
maker=$!
status=0
YUZURI_PAGE_PIPE=$pipe programs || status=$?
wait $maker || status=$?
exit $status
