#!/usr/bin/env bash
# Fills in the tables of a page from the results in lab-results/: fill-tables.sh PAGE. Each table is
# between `<!-- table NAME FIGURE [--across FIELD] -->` and `<!-- end -->`. Tables without results
# are left unchanged.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
lab=${YUZURI_LAB:-target/release/yuzuri-lab}
page=$1
fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
while IFS= read -r line; do
    case $line in
    '<!-- table '*)
        printf '%s\n' "$line"
        read -r _ _ name words <<<"${line% -->}"
        if compgen -G "lab-results/$name/*/seed-*/run.json" >/dev/null; then
            # shellcheck disable=SC2086
            "$lab" table "lab-results/$name" $words
            while IFS= read -r line && [ "$line" != '<!-- end -->' ]; do :; done
            printf '%s\n' "$line"
        fi
        ;;
    *) printf '%s\n' "$line" ;;
    esac
done <"$page" >"$fresh"
cat "$fresh" >"$page"
