#!/bin/bash
# Tests the packaged service under a real systemd: dist-test.sh runs this script in a container, as
# a service that stops the container. Writes passed, skipped or FAILED, with the reason, to
# /service.verdict.
set -Eeuo pipefail
stage=beginning
verdict() { echo "$*" >/service.verdict; }
trap 'verdict "FAILED: $stage"; systemctl status --no-pager --full yuzuri-share || true' ERR
is() { [ "$(systemctl "is-$1" yuzuri-share || true)" = "$2" ]; }
controls() { cat /proc/sys/net/ipv4/tcp_available_congestion_control; }
process() { systemctl show --property MainPID --value yuzuri-share; }
before=$(controls)

stage="installing starts nothing"
dpkg -i /package.deb
is enabled disabled
is active inactive

# Use a separate name, because this machine may be sharing itself.
name=yuzuri_pkg
stage="the name $name is free"
if controls | grep -qw $name; then false; fi
yuzuri share key /etc/yuzuri/share.key
printf 'key_file = "/etc/yuzuri/share.key"\ncontrol = "%s"\n' $name >>/etc/yuzuri/share.toml
ip link add v0 type veth peer name v1
ip address add 10.99.0.1/24 broadcast 10.99.0.255 dev v0
ip link set v0 up
ip link set v1 up
stage="the service starts"
if ! systemctl start yuzuri-share; then
    said=$(journalctl --no-pager --output cat --unit yuzuri-share)
    if grep -Eq 'not permitted|needs struct_ops' <<<"$said"; then
        verdict "skipped: this kernel does not let a container share: $(grep -E 'not permitted|needs struct_ops' <<<"$said" | head -n 1)"
        exit 0
    fi
    false
fi
is active active
stage="its congestion control is registered"
controls | grep -qw $name
stage="it answers, and takes new flows immediately"
yuzuri share status --json >/service.status
grep -q '"steers":true' /service.status
if grep -q '"new_flows_wait"' /service.status; then false; fi
stage="it runs as a separate user, without capabilities"
own=/proc/$(process)
[ "$(stat -c %U "$own")" = yuzuri ]
[ "$(grep -c '^Cap\(Inh\|Prm\|Eff\|Amb\):.0*$' "$own/status")" = 4 ]
stage="its files belong to its user"
[ "$(stat -c '%U:%G %a' /etc/yuzuri/share.key)" = 'root:yuzuri 640' ]
[ "$(stat -c '%U:%G %a' /run/yuzuri)" = 'yuzuri:yuzuri 755' ]
[ "$(stat -c '%U:%G %a' /var/lib/yuzuri)" = 'yuzuri:yuzuri 700' ]
[ "$(stat -c '%U:%G %a' /var/lib/yuzuri/node)" = 'yuzuri:yuzuri 600' ]
[ "$(find /run/yuzuri -name share.sock -printf '%u:%g %m')" = 'yuzuri:yuzuri 660' ]

stage="its address filter permits packets from and to a neighbour"
ip netns add neighbour
ip link set v1 netns neighbour
ip -n neighbour address add 10.99.0.2/24 broadcast 10.99.0.255 dev v1
ip -n neighbour link set v1 up
ip netns exec neighbour yuzuri share --key-file /etc/yuzuri/share.key --control yuzuri_pkg2 --runtime /root/neighbour --state /root/neighbour &
neighbour=$!
members() { yuzuri share status --json "$@" | grep -o '"node":"[0-9a-f]*","address":"[^"]*"' | wc -l; }
deadline=$((SECONDS + 30))
until [ "$(members)" = 1 ] && [ "$(members --runtime /root/neighbour)" = 1 ]; do
    [ $SECONDS -lt $deadline ] || false
    sleep 0.5
done
stage="its address filter blocks other addresses"
refused() {
    yuzuri share status --json | grep -o '"refused":{[^}]*}' | tr -c '0-9\n' ' ' |
        awk '{ for (i = 1; i <= NF; i++) sum += $i } END { print sum + 0 }'
}
from() { ip netns exec neighbour bash -c "echo 'not a message' >/dev/udp/$1/48770"; }
# Checks that a datagram from the neighbour is refused and counted.
counted() {
    local before
    before=$(refused)
    from 10.99.0.1
    deadline=$((SECONDS + 30))
    until [ "$(refused)" != "$before" ]; do
        [ $SECONDS -lt $deadline ] || false
        sleep 0.2
    done
}
counted
before_others=$(refused)
ip address add 203.0.113.1/24 dev v0
ip -n neighbour address add 203.0.113.2/24 dev v1
for _ in {1..200}; do from 203.0.113.1; done
counted
[ $(($(refused) - before_others)) -lt 100 ]
kill -TERM $neighbour
wait $neighbour

first=$(process)
stage="reloading reads the configuration again and keeps the process"
systemctl reload yuzuri-share
deadline=$((SECONDS + 20))
until journalctl --no-pager --output cat --unit yuzuri-share | grep -q 'the configuration was read again'; do
    [ $SECONDS -lt $deadline ] || false
    sleep 0.2
done
[ "$(process)" = "$first" ]
stage="upgrading restarts it"
dpkg --force-confold -i /package.deb
is active active
[ "$(process)" != "$first" ]
controls | grep -qw $name

stage="the watchdog restarts a daemon that hangs"
hung=$(process)
[ "$(systemctl show --property WatchdogUSec --value yuzuri-share)" = 10s ]
kill -STOP "$hung"
deadline=$((SECONDS + 60))
until is active active && [ "$(process)" != "$hung" ] && [ "$(process)" != 0 ]; do
    [ $SECONDS -lt $deadline ] || false
    sleep 0.5
done
[ "$(systemctl show --property NRestarts --value yuzuri-share)" = 1 ]
controls | grep -qw $name

stage="removing stops it"
dpkg -r yuzuri
is active inactive
[ ! -d "/proc/$first" ] && [ ! -d "/proc/$hung" ]
stage="removing leaves the congestion controls as they were"
[ "$(controls)" = "$before" ]
stage="purging leaves no file"
dpkg -P yuzuri
[ ! -e /etc/yuzuri ] && [ ! -e /var/lib/yuzuri ] && [ ! -e /run/yuzuri ]
verdict passed
