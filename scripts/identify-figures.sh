#!/usr/bin/env bash
# How often the right congestion control is found on paths that nobody tuned to: makes the captures in virtual time (hours; what is there is not
# made again), then prints the tables, first of the paths that rules were made on, then of the fourth, which are held out: of the captures as they are, and as other
# hosts would have made them. The paths are drawn by scripts/draw-paths.py; folders of other results can be given instead.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh

evaluate() {
    cargo run --release --locked --quiet -p yuzuri-infer --example evaluate -- "$@"
}
tables() {
    evaluate "$@"
    for other in --merged --middle --without-timestamps; do
        echo
        echo "== $other"
        evaluate --quiet "$other" "$@"
    done
}

if (($#)); then
    tables "$@"
    exit
fi
seen=() held_out=()
for scenario in scenarios/identify/*.toml; do
    folder="lab-results/identify/$(basename "$scenario" .toml)"
    target/release/yuzuri-lab sweep "$scenario" --no-report --out "$folder"
    case $scenario in
    */paths-4*) held_out+=("$folder") ;;
    *) seen+=("$folder") ;;
    esac
done
echo "== paths that rules were made on"
tables "${seen[@]}"
echo
echo "== paths held out"
tables "${held_out[@]}"
