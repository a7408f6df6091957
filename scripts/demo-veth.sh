#!/usr/bin/env bash
# The demonstration for machines on which scripts/demo.sh cannot run: no TUN/TAP, or a kernel
# without BPF congestion controls. Two terminals behind one access point send to a server over a 20
# Mbit/s path; the kernel monitor watches them and the page shows them. Runs until Ctrl-C, or for
# DEMO_SECONDS. Leaves nothing behind except the recording.
set -euo pipefail

yuzuri=${YUZURI:-target/demo/yuzuri}
web=${DEMO_WEB:-127.0.0.1:4949}
seconds=${DEMO_SECONDS:-0}
[ "$(id -u)" = 0 ] || { echo "demo: it makes network namespaces and loads BPF programs: run it as root" >&2; exit 1; }
[ -x "$yuzuri" ] || { echo "demo: $yuzuri is not built: run 'make demo-programs'" >&2; exit 1; }

# Unique names, so that several instances can run. The next run removes the leftovers of a killed
# one.
base=yzdemo$$
one=$base-one two=$base-two ap=$base-ap server=$base-server

end_processes() {
    local name
    for name in "$@"; do ip netns pids "$name" 2>/dev/null | xargs -r kill 2>/dev/null || true; done
}
remove() {
    local name
    for name in "$@"; do ip netns del "$name" 2>/dev/null || true; done
}
cleanup() {
    trap - EXIT INT TERM HUP
    [ ${#senders[@]} = 0 ] || kill "${senders[@]}" 2>/dev/null || true
    # Stop the senders first, while the server still acknowledges data in flight.
    end_processes "$one" "$two"
    local tries=0
    while [ -n "$(ip netns pids "$one" 2>/dev/null; ip netns pids "$two" 2>/dev/null)" ] && [ $tries -lt 40 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    end_processes "$server" "$ap"
    wait
    remove "$one" "$two" "$ap" "$server"
}
senders=()
trap cleanup EXIT
for stale in $(ip netns list | grep -oE '^yzdemo[0-9]+-[a-z]+' || true); do
    owner=${stale#yzdemo} owner=${owner%%-*}
    kill -0 "$owner" 2>/dev/null || { end_processes "$stale"; remove "$stale"; }
done

# one, two --- access point (a bridge) === 20 Mbit/s, 100-packet queue === server
for name in "$one" "$two" "$ap" "$server"; do
    ip netns add "$name"
    ip -n "$name" link set lo up
done
ip -n "$ap" link add br0 type bridge
ip -n "$ap" link set br0 up
host=0
for name in "$one" "$two" "$server"; do
    host=$((host + 1))
    ip link add "up$host" netns "$ap" type veth peer name eth0 netns "$name"
    ip -n "$ap" link set "up$host" master br0 up
    ip -n "$name" addr add "10.78.0.$host/24" dev eth0
    ip -n "$name" link set eth0 up
    ip netns exec "$name" ethtool -K eth0 tso off gso off gro off >/dev/null
done
tc -n "$ap" qdisc add dev up3 root tbf rate 20mbit burst 16kb limit 150kb
# If the kernel has netem (most do), the return path takes 20 ms, as from a server in the same
# country.
tc -n "$server" qdisc add dev eth0 root netem delay 20ms limit 10000 2>/dev/null || true

mkdir -p target/recordings
recording=target/recordings/$(date +%Y%m%d-%H%M%S).arrows
ip netns exec "$server" "$yuzuri" receive --json >/dev/null 2>&1 &

control=cubic
grep -qw cubic /proc/sys/net/ipv4/tcp_available_congestion_control || control=reno
for_time=()
[ "$seconds" = 0 ] || for_time=(--for "$seconds")
"$yuzuri" watch "netns:$one" "netns:$two" --web "$web" --record "$recording" "${for_time[@]}" &
watch=$!
trap 'kill -INT $watch 2>/dev/null' INT TERM HUP

# The terminals start shortly after the watcher, the second one later than the first. Each retries
# until the server listens.
start() {
    sleep "$2"
    until ip netns exec "$1" "$yuzuri" send --json --control $control --time 0 10.78.0.3 >/dev/null 2>&1; do
        kill -0 $watch 2>/dev/null || break
        sleep 0.2
    done
}
start "$one" 1 &
senders+=($!)
start "$two" 5 &
senders+=($!)

echo "demo: two terminals send to one server over 20 Mbit/s; the second joins after 4 s" >&2
status=0
# A signal interrupts `wait`; the watcher then needs a moment to print its final table.
while kill -0 $watch 2>/dev/null; do
    status=0
    wait $watch || status=$?
done
echo "demo: the recording is $recording (target/demo/yuzuri replay FILE --web)" >&2
exit $status
