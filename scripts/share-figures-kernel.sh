#!/usr/bin/env bash
# Sharing with the kernel's own TCP: runs scenarios/share in virtual time and puts their tables into docs/sharing.md. What is finished in lab-results/ or kept in results/ is not repeated, so it can be
# stopped and started again. With --tables nothing is run. SHARE_SWEEP has further words for `yuzuri lab sweep`, such as "--only /seed-1".
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
