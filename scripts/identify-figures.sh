#!/usr/bin/env bash
# Measures how often the right congestion control is identified on randomly drawn paths: makes the
# captures in virtual time (hours; existing ones are not repeated), then prints the tables, first
# for the paths that served to develop the rules, then for the fourth set, which is held out: for
# the captures as they are, and as other hosts and other users (scripts/wild-rows.py) would have made
# them. scripts/draw-paths.py draws the paths. Folders with other results can be given as arguments.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh

evaluate() {
    cargo run --release --locked --quiet -p yuzuri-eval -- identify "$@"
}
tables() {
    evaluate "$@"
    for other in --merged --middle --without-timestamps; do
        echo
        echo "== $other"
        evaluate --quiet "$other" "$@"
    done
    cargo build --release --locked --quiet -p yuzuri-identify
    for folder; do
        echo
        echo "== as other users would have captured them at the sender: $folder"
        scripts/wild-rows.py "$folder"
    done
}

if (($#)); then
    tables "$@"
    exit
fi
seen=() held_out=() former=()
for scenario in scenarios/identify/*.toml; do
    folder="lab-results/identify/$(basename "$scenario" .toml)"
    target/release/yuzuri-lab sweep "$scenario" --no-report --out "$folder"
    case $scenario in
    */paths-4*) held_out+=("$folder") ;;
    *-former*) former+=("$folder") ;;
    *) seen+=("$folder") ;;
    esac
done
echo "== paths used to develop the rules"
tables "${seen[@]}"
echo
echo "== paths held out"
tables "${held_out[@]}"
echo
echo "== algorithms of Linux 5.6 that counted ACKs"
evaluate "${former[@]}"
