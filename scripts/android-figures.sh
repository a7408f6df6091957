#!/usr/bin/env bash
# Measures the CPU usage of the app's engine: android-figures.sh [SECONDS] (default: 20). As root.
# `yuzuri send --json`, a release build, sends over a 50 Mbit/s path between two network namespaces,
# which are removed afterwards: alone, as the app runs it (with recording), and sharing. Prints
# the CPU time, user and system, of the process and of its kernel work, as a fraction of one core.
# ENGINE=path uses an existing engine.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
MBIT=50
seconds=${1:-20}
say() { printf 'android-figures: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
[ "$(id -u)" = 0 ] || fail "network namespaces need root"
engine=${ENGINE:-}
if [ -z "$engine" ]; then
    make --no-print-directory ui >&2
    cargo build --release --locked --quiet -p yuzuri
    engine=$(realpath "${CARGO_TARGET_DIR:-target}")/release/yuzuri
fi

a=yzfig$$a
b=yzfig$$b
folder=$(mktemp -d)
receiver=
clean() {
    [ -z "$receiver" ] || kill "$receiver" 2>/dev/null || true
    ip netns del $a 2>/dev/null || true
    ip netns del $b 2>/dev/null || true
    rm -rf "$folder"
}
trap clean EXIT
ip netns add $a
ip netns add $b
ip link add va netns $a type veth peer name vb netns $b
ip -n $a addr add 10.77.0.1/24 brd + dev va
ip -n $b addr add 10.77.0.2/24 brd + dev vb
for each in "$a va" "$b vb"; do
    read -r name link <<<"$each"
    ip -n "$name" link set "$link" up
    ip -n "$name" link set lo up
    # Disable offloads, so that packets have the size of those on a real path.
    ip netns exec "$name" ethtool -K "$link" tso off gso off gro off
done
tc -n $a qdisc replace dev va root tbf rate ${MBIT}mbit burst 10k limit 200000
ip netns exec $b "$engine" receive --json >"$folder/receiver" &
receiver=$!
tries=0
until grep -q listening "$folder/receiver"; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || fail "the receiver does not listen"
    sleep 0.1
done

# cost WHAT ARG...: the CPU usage in percent of one core, and the throughput.
cost() {
    local what=$1 used user system mbit
    shift
    TIMEFORMAT='%U %S %R'
    # A reader on a pipe takes the place of the app. Messages on standard error are shown if the run
    # fails.
    used=$({ time ip netns exec $a "$engine" send --json --time "${seconds}s" "$@" 10.77.0.2 2>"$folder/said" | cat >"$folder/lines"; } 2>&1) ||
        fail "$what: $(tail -n 1 "$folder/said")"
    read -r user system _ <<<"$(tail -n 1 <<<"$used")"
    mbit=$(sed -n 's/.*"type":"summary".*"duration_ns":[0-9]*,"throughput_bps":\([0-9]*\)[0-9]\{4\},.*/\1/p' "$folder/lines" | head -n 1)
    awk -v what="$what" -v user="$user" -v system_="$system" -v seconds="$seconds" -v mbit="$mbit" 'BEGIN {
        printf "%-40s %5.2f %% of one core (user %.2f s, system %.2f s, in %d s), %.1f Mbit/s\n",
            what, 100 * (user + system_) / seconds, user, system_, seconds, mbit / 100
    }'
}
cost "send --json"
cost "the same, recorded (as the app)" --record "$folder/a.arrows"
cost "the same, sharing" --record "$folder/b.arrows" --share --share-keyless
