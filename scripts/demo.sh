#!/usr/bin/env bash
# Eight 802.11n terminals behind one emulated access point send to one server, first without
# sharing, then with it. The page shows their windows, and a final table compares both halves.
# DEMO=ap lets the access point share instead of the terminals. DEMO_SECONDS is the total duration;
# by default the first half takes 20 s and the second runs until Ctrl-C. Leaves nothing behind except
# the recording.
set -euo pipefail

yuzuri=${YUZURI:-target/demo/yuzuri}
lab=${YUZURI_LAB:-target/demo/yuzuri-lab}
web=${DEMO_WEB:-127.0.0.1:4949}
seconds=${DEMO_SECONDS:-0}
[ "$(id -u)" = 0 ] || { echo "demo: it makes network namespaces and loads BPF programs: run it as root" >&2; exit 1; }
[ -x "$yuzuri" ] || { echo "demo: $yuzuri is not built: run 'make demo-programs'" >&2; exit 1; }
if ! why=$([ -x "$lab" ] || { echo "$lab is not built: run 'make demo-programs'"; exit 1; }; "$lab" demo --check 2>&1); then
    echo "demo: this machine cannot show sharing: $why" >&2
    echo "demo: two plain terminals instead" >&2
    exec "$(dirname "$0")/demo-veth.sh"
fi

mkdir -p target/recordings
recording=target/recordings/$(date +%Y%m%d-%H%M%S)-$$.arrows
folder=$(mktemp -d)
watch='' run=''
end() {
    trap - EXIT
    # Stop the terminals first: their flows end while the server still acknowledges data in flight,
    # and their daemons leave the group. Both programs clean up after themselves.
    local process
    for process in $run $watch; do
        kill -INT "$process" 2>/dev/null || true
        while kill -0 "$process" 2>/dev/null; do wait "$process" || true; done
    done
    rm -rf "$folder"
}
trap end EXIT

if [ "$seconds" = 0 ]; then
    times=(--half 20 --endless)
else
    times=(--half "$(awk -v s="$seconds" 'BEGIN { print s / 2 }')")
fi
# DEMO=ap: nothing runs on the terminals, the access point shares for them.
case "${DEMO:-}" in
'') ;;
ap) times+=(--access-point) ;;
*) echo "demo: DEMO=$DEMO: only DEMO=ap is known" >&2; exit 2 ;;
esac
# Run both in separate sessions, so that this script alone forwards Ctrl-C, once and in the right
# order.
setsid "$lab" demo "${times[@]}" --names "$folder/names" --share-socket "$folder/share.sock" >"$folder/table" &
run=$!
# A signal ends the terminals' run; the table is still printed.
trap 'kill -INT $run 2>/dev/null' INT TERM HUP
while [ ! -e "$folder/names" ] && kill -0 $run 2>/dev/null; do sleep 0.05; done
if [ -e "$folder/names" ]; then
    setsid "$yuzuri" watch $(sed 's/^/netns:/' "$folder/names") --web "$web" --view overlay --share-socket "$folder/share.sock" --record "$recording" &
    watch=$!
fi
status=0
while kill -0 $run 2>/dev/null; do
    # Without the page there is nothing to show.
    if [ -n "$watch" ] && ! kill -0 "$watch" 2>/dev/null; then
        kill -INT $run 2>/dev/null || true
        break
    fi
    sleep 0.2
done
# A signal interrupts `wait`.
while kill -0 $run 2>/dev/null; do wait $run || status=$?; done
if [ -n "$watch" ]; then
    kill -INT $watch 2>/dev/null || true
    watched=0
    while kill -0 $watch 2>/dev/null; do
        watched=0
        wait $watch || watched=$?
    done
    [ "$status" != 0 ] || status=$watched
fi
run='' watch=''
cat "$folder/table"
[ ! -e "$recording" ] || echo "demo: the recording is $recording (target/demo/yuzuri replay FILE --web)" >&2
exit $status
