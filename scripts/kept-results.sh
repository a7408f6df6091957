#!/usr/bin/env bash
# Manages the results of virtual-time experiments that are kept in the repository (results/),
# because all of them together take days and a seed gives the same packets everywhere:
#   kept-results.sh take NAME...    copies kept runs to lab-results/NAME, so that a sweep does not repeat them
#   kept-results.sh keep NAME...    keeps the finished, valid runs of lab-results/NAME
#   kept-results.sh check NAME...   repeats one cheap kept run of each: with the same program its record must
#                                   be identical byte for byte; with another (or if several programs made
#                                   them) its figures must be close
# Only records (run.json) and scenarios are kept, not the recordings that reports plot. A seed gives
# the same packets with the same program: a run counts instructions, and another line of code or
# another build folder shifts packets by nanoseconds and makes it a different, equally valid run.
# Therefore results/NAME/made-by lists the commit and the SHA-256 of each laboratory program that
# made runs. YUZURI_LAB is the program, MADE_BY its commit if it is not the checked-out one.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
lab=${YUZURI_LAB:-target/release/yuzuri-lab}
fail() { echo "kept-results: $*" >&2; exit 1; }
case "${1:-}" in take | keep | check) ;; *) fail "usage: kept-results.sh take|keep|check NAME..." ;; esac
what=$1
shift

# copied FROM TO: copies the records and scenarios of all finished runs that TO lacks.
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

program() { sha256sum "$lab" | cut -d ' ' -f 1; }

# keep_of NAME: keeps runs, and records which program made them, one line each.
keep_of() {
    local name=$1 kept=results/$1/made-by commit
    commit=$(git rev-parse --short=12 "${MADE_BY:-HEAD}^{commit}")
    copied "lab-results/$name" "results/$name"
    grep -qs "$(program)" "$kept" || echo "commit $commit program $(program)" >> "$kept"
}

# close RECORD OTHER: whether both records are of the same experiment apart from the randomness of
# another program. Such a run is as good as one with another seed; it is therefore compared with the
# distribution over the seeds of its point.
close() {
    python3 - "$@" <<'PYTHON'
import json, pathlib, statistics, sys

kept, again = (json.load(open(name)) for name in sys.argv[1:])
total = lambda record: record["totals"]["throughput_mbps"]
seeds = [total(json.load(open(path))) for path in pathlib.Path(sys.argv[1]).parents[1].glob("seed-*/run.json")]
before, now = total(kept), total(again)
if len(seeds) > 2:
    # 3.5 standard deviations: of samples of ten seeds, one in a hundred would be further off.
    before, allowed = statistics.mean(seeds), 3.5 * statistics.stdev(seeds) / statistics.mean(seeds)
    allowed, of = max(allowed, 0.05), f"the mean of {len(seeds)} seeds"
else:
    # A single seed does not show the spread over seeds: CUBIC at 512 ms with a short queue varies
    # by a tenth between seeds.
    allowed, of = 0.15, "kept"
off = now / before - 1
print(f"kept-results: total {before:.3f} ({of}) and {now:.3f} Mbit/s ({off:+.1%}; {allowed:.0%} is allowed)", file=sys.stderr)
sys.exit(abs(off) > allowed or not again["valid"])
PYTHON
}

# cheapest NAME: the run with the least driver time, of those that carried enough data for a
# meaningful total.
cheapest() {
    python3 - "results/$1" <<'PYTHON'
import json, pathlib, sys

records = {path: json.load(open(path)) for path in sorted(pathlib.Path(sys.argv[1]).glob("*/seed-*/run.json"))}
telling = {path: r for path, r in records.items() if r["totals"]["throughput_mbps"] >= 1} or records
if telling:
    print(min(telling, key=lambda path: telling[path]["driver_cpu_s"]))
PYTHON
}

# checked NAME FILE: repeats one run.
checked() {
    local name=$1 file=$2 run cheapest
    cheapest=$(cheapest "$name")
    [ -n "$cheapest" ] || fail "$name: nothing is kept"
    cheapest=${cheapest%/run.json}
    run=${cheapest#"results/$name/"}
    local again
    again=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$again'" EXIT
    "$lab" sweep "$file" --clock virtual --no-report --out "$again" --only "$run"
    if [ "$(sed 's/.* //' "results/$name/made-by" 2>/dev/null)" = "$(program)" ]; then
        cmp "$cheapest/run.json" "$again/$run/run.json" ||
            fail "$name: $run differs now, although the program is the same: QEMU, the guest's image or the host's programs in it have changed"
        echo "kept-results: $name: $run is identical, byte for byte" >&2
    else
        close "$cheapest/run.json" "$again/$run/run.json" ||
            fail "$name: the figures of $run have changed: remove results/$name and sweep again"
        echo "kept-results: $name: $run, by another program than the kept one, has close figures" >&2
    fi
    rm -rf "$again"
}

for name in "$@"; do
    case $what in
    take) [ ! -d "results/$name" ] || copied "results/$name" "lab-results/$name" ;;
    keep) [ ! -d "lab-results/$name" ] || keep_of "$name" ;;
    check)
        file=scenarios/$name.toml
        [ -f "$file" ] || file=scenarios/share/${name#share-}.toml
        [ -f "$file" ] || file=scenarios/access-point/${name#access-point-}.toml
        [ -f "$file" ] || fail "there is no scenario '$name'"
        checked "$name" "$file"
        ;;
    esac
done
