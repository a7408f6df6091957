#!/bin/sh
# An access point of the kernel's mac80211 with two stations, over radios that hear each other, and
# with a slow wire as its uplink. `yuzuri ap` runs at $DEVICE: at the radio's device (wlan0), or at
# a bridge (br0) whose hardware address is not the BSSID. One station runs `yuzuri share`, the other
# does not run yuzuri. Runs in a guest with radios, and prints lines "STEP JSON", which the test
# checks.
set -e
in_() { host=$1; shift; ip netns exec $host "$@"; }
# until_ COMMAND: waits until COMMAND succeeds; fails after 300 attempts, 0.1 s apart by the guest's
# clock.
until_() {
    n=0
    until "$@" > /tmp/until 2>&1; do
        n=$((n + 1))
        [ $n -lt 300 ] || {
            echo "never came: $*"; cat /tmp/until /tmp/ap.log /tmp/share.log
            ap_status; member_status; exit 1
        }
        sleep 0.1
    done
}
ap_status() { yuzuri ap status --runtime /run/ap --json; }
member_status() { in_ s2 yuzuri share status --runtime /run/share --json; }

modprobe virtio_mmio
modprobe mac80211_hwsim radios=4
printf 'interface=wlan0\ndriver=nl80211\nssid=office\nhw_mode=g\nchannel=6\nwmm_enabled=1\nieee80211n=1\n' > /tmp/hostapd.conf
if [ "$DEVICE" = br0 ]; then
    ip link add br0 address 02:79:7a:00:0b:01 type bridge
    ip link set br0 up
    echo bridge=br0 >> /tmp/hostapd.conf
fi
hostapd -B /tmp/hostapd.conf > /tmp/hostapd.log || { cat /tmp/hostapd.log; exit 1; }
ip addr add 10.9.0.1/24 dev $DEVICE
echo 1 > /proc/sys/net/ipv4/ip_forward
# The wire: 4 Mbit/s, a deep queue, and a delay of 20 ms.
ip netns add server
ip link add wire type veth peer name far netns server
ip addr add 10.8.0.1/24 dev wire
ip link set wire up
in_ server ip addr add 10.8.0.2/24 dev far
in_ server ip link set far up
in_ server ip link set lo up
in_ server ip route add default via 10.8.0.1
tc qdisc add dev wire root tbf rate 4mbit burst 10kb limit 200kb
in_ server tc qdisc add dev far root netem delay 20ms limit 10000

joined() { in_ s$1 iw dev wlan$1 link | grep -q "SSID: office"; }
for s in 2 3; do
    ip netns add s$s
    iw phy phy$s set netns name s$s
    in_ s$s ip link set lo up
    in_ s$s ip link set wlan$s up
    in_ s$s iw dev wlan$s connect office
    until_ joined $s
    in_ s$s ip addr add 10.9.0.1$s/24 dev wlan$s
    in_ s$s ip route add default via 10.9.0.1
    until_ in_ s$s ping -c 1 -W 1 10.8.0.2
done
# One bit rate per station, so that the expected rates are known: 65 and 26 Mbit/s.
in_ s2 iw dev wlan2 set bitrates ht-mcs-2.4 7
in_ s3 iw dev wlan3 set bitrates ht-mcs-2.4 3

yuzuri share key /tmp/key > /dev/null 2>&1
yuzuri ap -i $DEVICE --key-file /tmp/key --runtime /run/ap > /tmp/ap.log 2>&1 &
until_ ap_status
in_ s2 yuzuri share --interface wlan2 --key-file /tmp/key --runtime /run/share --state /run/state > /tmp/share.log 2>&1 &
until_ member_status

in_ server iperf3 -s -D -p 5202
in_ server iperf3 -s -D -p 5203
for s in 2 3; do in_ s$s iperf3 -c 10.8.0.2 -p 520$s -t 120 > /tmp/iperf3-$s.log 2>&1 & done
leads() { ap_status > /tmp/ap.json && grep -q '"membership":"member"' /tmp/ap.json && grep -q '"senders":2' /tmp/ap.json; }
until_ leads
obeys() { member_status > /tmp/member.json && grep -q '"senders":2' /tmp/member.json && grep -q '"rule":"\(share\|probe\)"' /tmp/member.json; }
until_ obeys
bounds() { ap_status | grep -q '"bounded":1'; }
until_ bounds
# The daemon takes the median of five samples of each radio, one each two seconds. No station may be
# mistrusted meanwhile.
n=0
while [ $n -lt 24 ]; do
    member_status > /tmp/member.json
    ! grep -q '"rule":"\(doubt\|mistrust\)"' /tmp/member.json || { echo "the member doubts"; cat /tmp/member.json; exit 1; }
    sleep 0.5
    n=$((n + 1))
done
echo "bssid {\"bssid\":\"$(cat /sys/class/net/wlan0/address)\",\"device\":\"$(cat /sys/class/net/$DEVICE/address)\"}"
echo "ap $(ap_status)"
echo "member $(member_status)"
echo "doctor {\"findings\":$(yuzuri doctor --json | tr -d '\n')}"
