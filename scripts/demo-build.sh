#!/usr/bin/env bash
# Builds what `make demo` runs. Where the page has not been built yet, it is made beside the crates, and only the crate
# that embeds it waits for it (crates/yuzuri-web/build.rs).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh

page() { make --no-print-directory ui; }
# With only the features that these two need.
programs() { cargo build --profile demo --locked -p yuzuri -p yuzuri-lab; }

# Cargo looks for changes at its start: it would not see a page that is made anew while it works.
if [ -e crates/yuzuri-web/ui/dist/.built ]; then
    page
    programs
    exit
fi
# The pipe's writing end is closed when all that make the page have ended.
exec {pipe}< <(exec {held}>&1 >&2 && page)
maker=$!
status=0
YUZURI_PAGE_PIPE=$pipe programs || status=$?
wait $maker || status=$?
exit $status
