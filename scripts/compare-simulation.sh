#!/usr/bin/env bash
# Compares the simulation with the kernel: runs scenarios/check in the laboratory (virtual time,
# root; finished runs are not repeated; the first time takes hours) and in crates/yuzuri-sim, and
# prints a table that marks values beyond the limits.
#   compare-simulation.sh [RESULTS_FOLDER] [ARGUMENTS of `yuzuri-eval simulation laboratory`, such as --seeds 20, --save FILE]
# YUZURI_LAB is the laboratory's program (default: built from this tree), JOBS the number of
# parallel guests (default: 1).
set -euo pipefail
cd "$(dirname "$0")/.."
results=${1:-lab-results/check}
shift || true
. scripts/path.sh
if [ -z "${YUZURI_LAB:-}" ]; then
  cargo build --locked --quiet --release -p yuzuri-lab
  YUZURI_LAB=${CARGO_TARGET_DIR:-target}/release/yuzuri-lab
fi
for file in scenarios/check/*.toml; do
  name=$(basename "$file" .toml)
  "$YUZURI_LAB" sweep "$file" --clock virtual --jobs "${JOBS:-1}" --no-report --out "$results/$name"
done
exec cargo run --locked --quiet --release -p yuzuri-eval -- simulation laboratory --results "$results" "$@" scenarios/check/*.toml
