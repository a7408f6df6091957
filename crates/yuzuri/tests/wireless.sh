#!/bin/sh
# Two access points and two stations of the kernel's mac80211, over radios that hear each other.
# Runs `yuzuri share` on the stations, in a guest with radios, and prints lines "STEP STATION JSON",
# which the test checks.
set -e
# hostapd NAME SSID CHANNEL STANDARD
access_point() {
    printf 'interface=%s\ndriver=nl80211\nssid=%s\nhw_mode=g\nchannel=%s\nwmm_enabled=1\nieee80211n=%s\n' "$1" "$2" "$3" "$4" > /tmp/$1.conf
    hostapd -B /tmp/$1.conf > /tmp/$1.log || { cat /tmp/$1.log; exit 1; }
}
in_s() { s=$1; shift; ip netns exec s$s "$@"; }
# until_ COMMAND: waits until COMMAND succeeds; fails after 150 attempts, 0.1 s apart by the guest's
# clock.
until_() {
    n=0
    until "$@" > /tmp/until 2>&1; do
        n=$((n + 1))
        [ $n -lt 150 ] || { echo "never came: $*"; cat /tmp/until; cat /tmp/share-*.log; exit 1; }
        sleep 0.1
    done
}
joined() { in_s $1 iw dev wlan$1 link | grep -q "SSID: $2"; }
# joins STATION SSID ADDRESS GATEWAY
joins() {
    in_s $1 iw dev wlan$1 connect $2
    until_ joined $1 $2
    in_s $1 ip addr flush dev wlan$1 scope global
    in_s $1 ip addr add $3/24 dev wlan$1
    in_s $1 ip route replace default via $4
    until_ in_s $1 ping -c 1 -W 1 $4
}
status() { in_s $1 yuzuri share status --runtime /run/share-$1 --json; }
tell() { echo "$1 $2 $(status $2)"; }

modprobe virtio_mmio
modprobe mac80211_hwsim radios=4
access_point wlan0 with-n 6 1
access_point wlan1 with-g 1 0
ip addr add 10.9.0.1/24 dev wlan0
ip addr add 10.9.1.1/24 dev wlan1
for s in 2 3; do
    ip netns add s$s
    iw phy phy$s set netns name s$s
    in_s $s ip link set lo up
    in_s $s ip link set wlan$s up
done
joins 2 with-n 10.9.0.12 10.9.0.1
joins 3 with-n 10.9.0.13 10.9.0.1
# One bit rate per station, so that the expected rates are known: 65 and 26 Mbit/s.
in_s 2 iw dev wlan2 set bitrates ht-mcs-2.4 7
in_s 3 iw dev wlan3 set bitrates ht-mcs-2.4 3
for s in 2 3; do
    in_s $s yuzuri share --interface wlan$s --keyless --runtime /run/share-$s --state /run/state-$s > /tmp/share-$s.log 2>&1 &
    # Send frames: the kernel reports a rate only for stations that send.
    in_s $s ping -i 0.1 10.9.0.1 > /dev/null &
    eval ping_$s=$!
    until_ status $s
done
know_each_other() { for s in 2 3; do [ "$(status $s | grep -o '"proved"' | wc -l)" = 2 ] || return 1; done; }
until_ know_each_other
# The daemon reports the median of five samples, two a second.
rate_is() { status $1 | grep -q "\"alone_bps\":$2,"; }
until_ rate_is 2 "$ALONE_AT_65"
until_ rate_is 3 "$ALONE_AT_26"
tell together 2
tell together 3

# Both send: one leads, the other reports to it, and both have its summary.
iperf3 -s -D -p 5202
iperf3 -s -D -p 5203
for s in 2 3; do in_s $s iperf3 -c 10.9.0.1 -p 520$s -b 4M -t 10 > /tmp/iperf3-$s.log 2>&1 & done
steered() { for s in 2 3; do status $s | grep -q '"senders":2' || return 1; done; }
until_ steered
tell sending 2
tell sending 3

# Roam to the other access point, which has no 802.11n: another group, and soon another rate.
kill $ping_2 $ping_3
in_s 3 iw dev wlan3 disconnect
in_s 3 iw dev wlan3 set bitrates legacy-2.4 54
joins 3 with-g 10.9.1.13 10.9.1.1
in_s 3 ping -i 0.1 10.9.1.1 > /dev/null &
ping_3=$!
until_ rate_is 3 "$ALONE_AT_54_G"
tell roamed 3
kill $ping_3
# The member could not announce that it left. The others remove a member after a minute of silence.
sleep 55
alone() { [ "$(status $1 | grep -o '"proved"' | wc -l)" = 1 ]; }
until_ alone 2
tell left 2

# Without an access point the group is derived from the gateway, or there is none.
in_s 2 iw dev wlan2 disconnect
without() { ! status $1 | grep -q '"group_from":"bssid"'; }
until_ without 2
tell without 2
