#!/usr/bin/env bash
# Runs the papers' experiments in virtual time and writes their tables to docs/papers.md:
# paper-figures.sh [SCENARIO...] (default: all). Runs that are finished in lab-results/ or kept in
# results/ are not repeated, so that the script can be stopped and restarted. PAPER_SWEEP has
# further arguments for `yuzuri lab sweep`: PAPER_SWEEP="--only /seed-1" for the first repetition of
# each run, --jobs 1 for one guest at a time. With --tables nothing is run.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
lab=${YUZURI_LAB:-target/release/yuzuri-lab}
page=docs/papers.md
sweep=yes
[ "${1:-}" != --tables ] || { sweep=no; shift; }
scenarios=("$@")
[ ${#scenarios[@]} != 0 ] ||
    scenarios=(visualizer-one visualizer-two middleware-six kernel-monitor fairness-four identification)

for name in "${scenarios[@]}"; do
    [ -f "scenarios/$name.toml" ] || { echo "paper-figures: there is no scenario '$name'" >&2; exit 1; }
done
scripts/kept-results.sh take "${scenarios[@]}"
if [ $sweep = yes ]; then
    for name in "${scenarios[@]}"; do
        # shellcheck disable=SC2086
        "$lab" sweep "scenarios/$name.toml" --clock virtual --out "lab-results/$name" ${PAPER_SWEEP:-}
        scripts/kept-results.sh keep "$name"
    done
fi

scripts/fill-tables.sh "$page"
echo "paper-figures: the tables are in $page, the reports in lab-results/*/report.html" >&2
