#!/usr/bin/env bash
# The congestion control without bounds beside the kernel's own CUBIC (scenarios/control-parity.toml, virtual time, root): at how many round trips
# their windows are within one segment, for each loss and seed. Beside it the kernel's CUBIC against itself on a processor of another speed: what the
# order of a few events alone makes of the same sender. A quarter of an hour; what is finished is not repeated. make control-parity builds what it needs.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
lab=${YUZURI_LAB:-target/release/yuzuri-lab}
same=${YUZURI_SAME_WINDOWS:-target/release/examples/same_windows}
out=lab-results/control-parity
"$lab" sweep scenarios/control-parity.toml --no-report --out "$out/8000" --set processor_mips=8000 >&2
"$lab" sweep scenarios/control-parity.toml --no-report --out "$out/4000" --set processor_mips=4000 --only ,cubic >&2

# row NAME LOSS A B: the seeds' shares of round trips within one segment, and the largest of their median differences.
row() {
    local seed shares=() medians=() words
    for seed in 1 2 3; do
        words=$("$same" "$out/$3/seed-$seed/recording.arrows" "$out/$4/seed-$seed/recording.arrows")
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
