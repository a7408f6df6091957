#!/usr/bin/env bash
# Checks the crates of the workspace and of the fuzz targets against deny.toml: licences, bans, sources; and known vulnerabilities
# (advisories) with DENY_ADVISORIES=1, which fetches the database of RustSec.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh deny
. scripts/path.sh
checks=(licenses bans sources)
if [ -n "${DENY_ADVISORIES:-}" ]; then checks+=(advisories); else echo "deny: advisories: skipped: DENY_ADVISORIES=1 fetches the database of known vulnerabilities" >&2; fi
for manifest in Cargo.toml fuzz/Cargo.toml; do
    echo "deny: $manifest: ${checks[*]}" >&2
    cargo deny --manifest-path "$manifest" --config deny.toml --workspace --all-features --locked check --show-stats --hide-inclusion-graph "${checks[@]}"
done
