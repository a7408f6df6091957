#!/usr/bin/env bash
# Measures sharing with the kernel's own TCP: runs scenarios/share in virtual time and writes the
# tables to docs/sharing.md. Runs that are finished in lab-results/ or kept in results/ are not
# repeated, so that the script can be stopped and restarted. With --tables nothing is run.
# SHARE_SWEEP has further arguments for `yuzuri lab sweep`, such as "--only /seed-1".
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
lab=${YUZURI_LAB:-target/release/yuzuri-lab}
sweep=yes
[ "${1:-}" != --tables ] || sweep=no
for file in scenarios/share/*.toml; do
    name=share-$(basename "$file" .toml)
    scripts/kept-results.sh take "$name"
    [ $sweep = yes ] || continue
    # shellcheck disable=SC2086
    "$lab" sweep "$file" --clock virtual --out "lab-results/$name" ${SHARE_SWEEP:-}
    scripts/kept-results.sh keep "$name"
done
scripts/fill-tables.sh docs/sharing.md
echo "share-figures-kernel: the tables are in docs/sharing.md, the reports in lab-results/share-*/report.html" >&2
