#!/usr/bin/env bash
# Checks the crates of the workspace and of the fuzz targets against deny.toml: licences, bans and
# sources. DENY_ADVISORIES=1 also checks for known vulnerabilities (advisories) and downloads the
# RustSec database. With --offline nothing is installed or downloaded; a set of crates that has not
# been downloaded is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
offline=()
case "${1:-}" in
"") scripts/setup.sh deny ;;
# Check this machine's platform only: a build downloads no crates of other platforms.
--offline)
    host=$(rustc -vV | sed -n "s/^host: //p")
    offline=(--offline --target "$host")
    ;;
*) echo "usage: deny.sh [--offline]" >&2; exit 2 ;;
esac
checks=(licenses bans sources)
if [ -n "${DENY_ADVISORIES:-}" ]; then
    checks+=(advisories)
else
    echo "deny: advisories: skipped: DENY_ADVISORIES=1 fetches the database of known vulnerabilities" >&2
fi
if [ ${#offline[@]} != 0 ] && ! cargo metadata --offline --locked --all-features --filter-platform "$host" \
    --format-version 1 >/dev/null 2>&1; then
    echo "deny: skipped: not all crates are downloaded: cargo fetch" >&2
    exit
fi
echo "deny: ${checks[*]}" >&2
cargo deny --config deny.toml --workspace --all-features --locked "${offline[@]}" \
    check --show-stats --hide-inclusion-graph "${checks[@]}"
