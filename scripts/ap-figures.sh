#!/usr/bin/env bash
# Measures sharing at the access point: first in simulation, over many fixed and many random
# settings (AP_RANDOM has the arguments of the latter), whose tables are printed; then with the
# kernel's own TCP: runs scenarios/access-point in virtual time and writes the tables to
# docs/access-point.md. Runs that are finished in lab-results/ or kept in results/ are not repeated,
# so that the script can be stopped and restarted. With --tables nothing is run. AP_SWEEP has
# further arguments for `yuzuri lab sweep`, such as "--only /seed-1".
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
lab=${YUZURI_LAB:-target/release/yuzuri-lab}
sweep=yes
[ "${1:-}" != --tables ] || sweep=no
if [ $sweep = yes ]; then
    evaluate=${YUZURI_EVAL:-target/release/yuzuri-eval}
    "$evaluate" access-point --rows
    # shellcheck disable=SC2086
    "$evaluate" access-point ${AP_RANDOM:---random 120}
fi
for file in scenarios/access-point/*.toml; do
    name=access-point-$(basename "$file" .toml)
    scripts/kept-results.sh take "$name"
    [ $sweep = yes ] || continue
    # shellcheck disable=SC2086
    "$lab" sweep "$file" --clock virtual --out "lab-results/$name" ${AP_SWEEP:-}
    scripts/kept-results.sh keep "$name"
done
scripts/fill-tables.sh docs/access-point.md
echo "ap-figures: the tables are in docs/access-point.md, the reports in lab-results/access-point-*/report.html" >&2
