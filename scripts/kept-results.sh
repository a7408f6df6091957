#!/usr/bin/env bash
# What the experiments in virtual time gave, kept in the repository (results/), since all of them are days of work and a
# seed gives the same packets everywhere:
#   kept-results.sh take NAME...    puts what is kept into lab-results/NAME, so that a sweep does not repeat it
#   kept-results.sh keep NAME...    keeps what is finished and valid in lab-results/NAME
#   kept-results.sh check NAME...   runs the cheapest kept run of each again: its record must be the same, byte for byte
# Only records (run.json) and scenarios are kept, not the recordings that reports draw. A seed gives the same packets for the same program, to the
# instruction; so results/NAME/made-by names the commit whose laboratory made all runs of it (MADE_BY=COMMIT, if it is not what is checked out),
# and check builds that one where the sources differ.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
lab=${YUZURI_LAB:-target/release/yuzuri-lab}
fail() { echo "kept-results: $*" >&2; exit 1; }
case "${1:-}" in take | keep | check) ;; *) fail "usage: kept-results.sh take|keep|check NAME..." ;; esac
what=$1
shift

# copied FROM TO: records and scenarios of all finished runs that are not there yet.
copied() {
    local from=$1 to=$2 run new=0
    while IFS= read -r run; do
        [ ! -e "$to/$run/run.json" ] || continue
        mkdir -p "$to/$run"
        cp "$from/$run/run.json" "$from/$run/scenario.toml" "$to/$run/"
        new=$((new + 1))
    done < <(cd "$from" && find . -mindepth 3 -maxdepth 3 -name run.json ! -path '*.partial/*' \
        -exec grep -l '"clock": "virtual"' {} + | xargs -r -d '\n' grep -l '"valid": true' | xargs -r -d '\n' -n 1 dirname | sort)
    echo "kept-results: $from: $new new of $(find "$to" -name run.json 2>/dev/null | wc -l)" >&2
}

# What goes into the laboratory's program, and into its guest.
sources=(Cargo.toml Cargo.lock crates)

# keep_of NAME: keeps runs, all by one program.
keep_of() {
    local name=$1 made=${MADE_BY:-HEAD} kept=results/$1/made-by
    made=$(git rev-parse --short=12 "$made^{commit}")
    [ -n "${MADE_BY:-}" ] || git diff --quiet HEAD -- "${sources[@]}" ||
        fail "$name: commit the sources first, so that it can be said which made these runs"
    if [ -f "$kept" ] && ! git diff --quiet "$(cat "$kept")" "$made" -- "${sources[@]}"; then
        fail "$name: what is kept was made by $(cat "$kept"), whose sources are not those of $made: sweep with that one, or remove results/$name and sweep anew"
    fi
    copied "lab-results/$name" "results/$name"
    [ -f "$kept" ] || echo "$made" > "$kept"
}

# lab_of COMMIT: sets `lab` to the laboratory's program of that commit, built if it is not that of this tree.
lab_of() {
    local tree
    if git diff --quiet "$1" -- "${sources[@]}"; then return; fi
    tree=$PWD/target/kept/$1
    if [ ! -x "$tree/target/release/yuzuri-lab" ]; then
        echo "kept-results: building the laboratory of $1 in target/kept" >&2
        mkdir -p target/kept
        git worktree prune
        [ -d "$tree" ] || git worktree add --quiet --detach "$tree" "$1"
        make -C "$tree" lab >&2
    fi
    lab=$tree/target/release/yuzuri-lab
}

# checked NAME FILE: one run again.
checked() {
    local name=$1 file=$2 run cheapest
    # The one that cost the driver least. No name of a point has a tab in it.
    cheapest=$(find "results/$name" -name run.json -exec sed -n "s/^  \"driver_cpu_s\": \([0-9.]*\).*/\1/;T;F;p" {} \; 2>/dev/null |
        paste - - | sort -t "$(printf '\t')" -k 2n | head -n 1 | cut -f 1)
    [ -n "$cheapest" ] || fail "$name: nothing is kept"
    cheapest=${cheapest%/run.json}
    run=${cheapest#"results/$name/"}
    [ -f "results/$name/made-by" ] || fail "results/$name/made-by is missing: it is not known which commit made these runs"
    lab_of "$(cat "results/$name/made-by")"
    local again
    again=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$again'" EXIT
    "$lab" sweep "$file" --clock virtual --no-report --out "$again" --only "$run"
    cmp "$cheapest/run.json" "$again/$run/run.json" ||
        fail "$name: $run is another one now: what is kept is not what this tree gives; remove results/$name and sweep again"
    echo "kept-results: $name: $run is the same, byte for byte" >&2
    rm -rf "$again"
}

for name in "$@"; do
    case $what in
    take) [ ! -d "results/$name" ] || copied "results/$name" "lab-results/$name" ;;
    keep) [ ! -d "lab-results/$name" ] || keep_of "$name" ;;
    check)
        file=scenarios/$name.toml
        [ -f "$file" ] || file=scenarios/share/${name#share-}.toml
        [ -f "$file" ] || fail "there is no scenario '$name'"
        checked "$name" "$file"
        ;;
    esac
done
