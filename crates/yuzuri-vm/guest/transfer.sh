#!/bin/sh
# transfer.sh RATE_MBIT RTT_MS LIMIT_PACKETS SECONDS [NETEM WORDS]: one CUBIC flow S -> R -> D with
# iperf3, every ACK by tcp_probe into /results/probe (time snd_nxt snd_una snd_cwnd ssthresh srtt).
# The data path has the rate and the queue; the ACK path has the whole delay, because netem's limit
# also counts packets in flight.
set -e
rate=$1 rtt=$2 limit=$3 seconds=$4
shift 4
modprobe -a veth sch_netem
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
tc -n R qdisc add dev r1 root netem rate ${rate}mbit limit $limit "$@"
tc -n R qdisc add dev r0 root netem delay ${rtt}ms limit 100000
until ip netns exec S ping -c 1 -q 10.0.2.2 > /dev/null; do :; done

ip netns exec D iperf3 -s -1 > /dev/null &
until ip netns exec D ss -Hltn 'sport = :5201' | grep -q .; do sleep 0.01; done
cd /sys/kernel/tracing
echo 65536 > buffer_size_kb
echo mono > trace_clock
echo 'dport == 5201' > events/tcp/tcp_probe/filter
echo 1 > events/tcp/tcp_probe/enable
ip netns exec S iperf3 -c 10.0.2.2 -C cubic -t $seconds -i 0 -f m | grep -E 'sender|receiver'
echo 0 > tracing_on
wait
sed -n 's/.* \([0-9.]*\): tcp_probe: .* snd_nxt=\(0x[0-9a-f]*\) snd_una=\(0x[0-9a-f]*\) snd_cwnd=\([0-9]*\) ssthresh=\([0-9]*\) .*srtt=\([0-9]*\).*/\1 \2 \3 \4 \5 \6/p' trace > /results/probe
