#!/usr/bin/env bash
# Sharing with the kernel's own TCP: runs scenarios/share in virtual time and prints their tables. What is finished in lab-results/ or kept in results/ is not repeated, so it can be
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
for file in scenarios/share/*.toml; do
    name=share-$(basename "$file" .toml)
    compgen -G "lab-results/$name/*/seed-*/run.json" >/dev/null || continue
    printf '\n### %s\n' "$(sed -n 's/^title = "\(.*\)"/\1/p' "$file")"
    for figure in throughput_mbps jain rtt_mean_ms retransmissions; do
        printf '\n%s\n\n' "$figure"
        "$lab" table "lab-results/$name" "$figure" --across variant
    done
done
