#!/usr/bin/env bash
# How often the right congestion control is found on paths that nobody tuned to: makes the captures in virtual time (hours; what is there is not
# made again), then prints the tables: of the captures as they are, and as other hosts would have made them. The paths are drawn by
# scripts/draw-paths.py; folders of other results can be given instead.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
if (($#)); then
    folders=("$@")
else
    folders=()
    for scenario in scenarios/identify/*.toml; do
        folder="lab-results/identify/$(basename "$scenario" .toml)"
        target/release/yuzuri-lab sweep "$scenario" --no-report --out "$folder"
        folders+=("$folder")
    done
fi
evaluate() {
    cargo run --release --locked --quiet -p yuzuri-infer --example evaluate -- "$@" "${folders[@]}"
}
evaluate
for other in --merged --middle --without-timestamps; do
    echo
    echo "== $other"
    evaluate --quiet "$other"
done
