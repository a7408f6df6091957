#!/bin/sh
# In a guest of yuzuri-vm, for scripts/polled-logs.py: senders with these congestion controls share
# one path, and `ss -tin` prints their variables again and again, into /results/log. Its times are
# those of /proc/uptime, to 10 ms.
#   polled-logs.sh RATE_KBIT RTT_MS LIMIT_PACKETS SECONDS PAUSE_S CONTROL:LATER_S...
# The data path has the rate and the queue; the ACK path has the whole delay, because netem's limit
# also counts packets in flight.
set -e
rate=$1 rtt=$2 limit=$3 seconds=$4 pause=$5
shift 5
modprobe -a veth sch_netem tcp_diag
for n in S R D; do
    ip netns add $n
    ip -n $n link set lo up
done
ip link add s0 netns S type veth peer name r0 netns R
ip link add d0 netns D type veth peer name r1 netns R
mac=1
for end in S:s0:10.0.1.2 R:r0:10.0.1.1 R:r1:10.0.2.1 D:d0:10.0.2.2; do
    IFS=: read -r n link address <<X
$end
X
    ip -n $n link set $link address 02:00:00:00:00:0$mac
    ip -n $n addr add $address/24 dev $link
    ip -n $n link set $link up
    ip netns exec $n ethtool -K $link tso off gso off gro off
    mac=$((mac + 1))
done
ip -n S route add default via 10.0.1.1
ip -n D route add default via 10.0.2.1
ip netns exec R sysctl -q -w net.ipv4.ip_forward=1
tc -n R qdisc add dev r1 root netem rate ${rate}kbit limit $limit
tc -n R qdisc add dev r0 root netem delay ${rtt}ms limit 100000
until ip netns exec S ping -c 1 -q 10.0.2.2 > /dev/null; do :; done

port=5201 clients=
for flow in "$@"; do
    IFS=: read -r control later <<X
$flow
X
    modprobe -q tcp_$control || :
    ip netns exec D iperf3 -s -1 -p $port > /dev/null &
    until ip netns exec D ss -Hltn "sport = :$port" | grep -q .; do sleep 0.01; done
    (sleep $later && exec ip netns exec S iperf3 -c 10.0.2.2 -p $port -C $control -t $seconds -i 0) > /dev/null &
    clients="$clients $!"
    port=$((port + 1))
done
# One name space for the whole loop, and the shell reads the time: programs cost the guest most.
cat > /tmp/poll <<'X'
running() {
    for client in "$@"; do
        kill -0 $client 2> /dev/null && return
    done
    return 1
}
pause=$1
shift
while running "$@"; do
    read -r now rest < /proc/uptime
    echo $now
    ss -Htin dst 10.0.2.2
    sleep $pause
done
X
ip netns exec S sh /tmp/poll $pause $clients > /results/log
