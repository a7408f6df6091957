#!/usr/bin/env bash
# What the experiments in virtual time gave, kept in the repository (results/), since all of them are days of work and a
# seed gives the same packets everywhere:
#   kept-results.sh take NAME...    puts what is kept into lab-results/NAME, so that a sweep does not repeat it
#   kept-results.sh keep NAME...    keeps what is finished and valid in lab-results/NAME
#   kept-results.sh check NAME...   runs a cheap kept run of each again: by the same program, its record must be the same, byte for byte;
#                                   by another (or where several made them), its figures must be close
# Only records (run.json) and scenarios are kept, not the recordings that reports draw. A seed gives the same packets for the same program: a run counts
# instructions, and another line, or another folder to build in, moves packets by nanoseconds and makes it another run, equally valid. So results/NAME/made-by
# tells the commit and the SHA-256 of each program of the laboratory that made runs. YUZURI_LAB is the program, MADE_BY its commit where it is not what is checked out.
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

program() { sha256sum "$lab" | cut -d ' ' -f 1; }

# keep_of NAME: keeps runs, and tells by which program, a line for each.
keep_of() {
    local name=$1 kept=results/$1/made-by commit
    commit=$(git rev-parse --short=12 "${MADE_BY:-HEAD}^{commit}")
    copied "lab-results/$name" "results/$name"
    grep -qs "$(program)" "$kept" || echo "commit $commit program $(program)" >> "$kept"
}

# close RECORD OTHER: whether the same experiment came out, but for the chance of another program: such a run is as good as one with another seed, so it
# is held against what the seeds of its point gave.
close() {
    python3 - "$@" <<'PYTHON'
import json, pathlib, statistics, sys

kept, again = (json.load(open(name)) for name in sys.argv[1:])
total = lambda record: record["totals"]["throughput_mbps"]
seeds = [total(json.load(open(path))) for path in pathlib.Path(sys.argv[1]).parents[1].glob("seed-*/run.json")]
before, now = total(kept), total(again)
if len(seeds) > 2:
    # 3.5 deviations: one in a hundred of ten seeds' likes would be further off.
    before, allowed = statistics.mean(seeds), 3.5 * statistics.stdev(seeds) / statistics.mean(seeds)
    allowed, of = max(allowed, 0.05), f"the mean of {len(seeds)} seeds"
else:
    # One seed does not tell how far seeds are apart: CUBIC over 512 ms and a short queue moves by a tenth from one to the next.
    allowed, of = 0.15, "kept"
off = now / before - 1
print(f"kept-results: total {before:.3f} ({of}) and {now:.3f} Mbit/s ({off:+.1%}; {allowed:.0%} is allowed)", file=sys.stderr)
sys.exit(abs(off) > allowed or not again["valid"])
PYTHON
}

# cheapest NAME: the run that cost the driver least, of those that carried enough for their total to tell something.
cheapest() {
    python3 - "results/$1" <<'PYTHON'
import json, pathlib, sys

records = {path: json.load(open(path)) for path in sorted(pathlib.Path(sys.argv[1]).glob("*/seed-*/run.json"))}
telling = {path: r for path, r in records.items() if r["totals"]["throughput_mbps"] >= 1} or records
if telling:
    print(min(telling, key=lambda path: telling[path]["driver_cpu_s"]))
PYTHON
}

# checked NAME FILE: one run again.
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
            fail "$name: $run is another one now, though the program is the same: QEMU, the guest's image or the host's programs in it have changed"
        echo "kept-results: $name: $run is the same, byte for byte" >&2
    else
        close "$cheapest/run.json" "$again/$run/run.json" ||
            fail "$name: $run comes out otherwise now: remove results/$name and sweep again"
        echo "kept-results: $name: $run, by another program than the kept one, comes out alike" >&2
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
        [ -f "$file" ] || fail "there is no scenario '$name'"
        checked "$name" "$file"
        ;;
    esac
done
