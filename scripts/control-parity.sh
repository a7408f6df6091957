#!/usr/bin/env bash
# Compares the congestion control without bounds with the kernel's own CUBIC
# (scenarios/control-parity.toml, virtual time, root): in how many round trips their windows differ
# by at most one segment, for each loss rate and seed. As a reference, compares the kernel's CUBIC
# with itself on a processor of another speed, which shows the effect of a different order of a few
# events on the same sender. Takes a quarter of an hour; finished runs are not repeated. make
# control-parity builds what this script needs.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
lab=${YUZURI_LAB:-target/release/yuzuri-lab}
evaluate=${YUZURI_EVAL:-target/release/yuzuri-eval}
out=lab-results/control-parity
"$lab" sweep scenarios/control-parity.toml --no-report --out "$out/8000" --set processor_mips=8000 >&2
"$lab" sweep scenarios/control-parity.toml --no-report --out "$out/4000" --set processor_mips=4000 --only ,cubic >&2

# row NAME LOSS A B: for each seed the fraction of round trips within one segment, and the largest
# median difference.
row() {
    local seed shares=() medians=() words
    for seed in 1 2 3; do
        words=$("$evaluate" windows "$out/$3/seed-$seed/recording.arrows" "$out/$4/seed-$seed/recording.arrows")
        shares+=("$(sed 's/.* ms: \([0-9.]*\) % within.*/\1/' <<<"$words")")
        medians+=("$(sed 's/.*median \([0-9]*\),.*/\1/' <<<"$words")")
    done
    echo "| $1 | $2 | ${shares[*]} | $(printf '%s\n' "${medians[@]}" | sort -n | tail -n 1) |"
}
echo "| | loss | round trips within one segment, %, of three seeds | largest median difference |"
echo "|---|---|---|---|"
for loss in 0.0 0.0005 0.005; do
    row "the control and CUBIC" $loss "8000/path.loss=$loss,yuzuri" "8000/path.loss=$loss,cubic"
    row "CUBIC and CUBIC with half the processor" $loss "8000/path.loss=$loss,cubic" "4000/path.loss=$loss,cubic"
done
