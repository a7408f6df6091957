#!/bin/bash
# The service of the package under a real systemd: dist-test.sh runs this in a container, as a service that ends it. Writes
# /service.verdict: passed, skipped or FAILED, with why.
set -euo pipefail
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

# A name of its own: this machine may be sharing itself.
name=yuzuri_pkg
stage="the name $name is free"
if controls | grep -qw $name; then false; fi
printf 'keyless = true\ncontrol = "%s"\n' $name >>/etc/yuzuri/share.toml
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
stage="it answers"
yuzuri share status --json >/dev/null

first=$(process)
stage="reloading reads the configuration again and keeps the process"
systemctl reload yuzuri-share
deadline=$((SECONDS + 20))
until journalctl --no-pager --output cat --unit yuzuri-share | grep -q 'the configuration was read again'; do
    [ $SECONDS -lt $deadline ] || false
    sleep 0.2
done
[ "$(process)" = "$first" ]
stage="upgrading starts it anew"
dpkg --force-confold -i /package.deb
is active active
[ "$(process)" != "$first" ]
controls | grep -qw $name

stage="a daemon that hangs is ended by the watchdog and started anew"
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
