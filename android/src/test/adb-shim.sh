#!/usr/bin/env bash
# Tests scripts/adb.sh without a device: a replacement for `adb` runs its commands on this host, in
# a folder that represents the device. Tests the script (its arguments, its errors, its cleanup)
# with the real `yuzuri` of this host in place of the device's; it proves nothing about a phone.
# ENGINE=path selects the engine.
set -euo pipefail
cd "$(dirname "$0")/../../.."
engine=${ENGINE:-$(realpath "${CARGO_TARGET_DIR:-target}")/debug/yuzuri}
work=$(mktemp -d)
receiver=
pid=
trap 'kill $receiver $pid 2>/dev/null || true; rm -rf "$work"' EXIT
fail() { echo "adb-shim: $*" >&2; exit 1; }

mkdir -p "$work/bin" "$work/device/data/local/tmp" "$work/out"
# The command line of a shell on the device; its /data is in the folder.
cat >"$work/bin/adb" <<'SHIM'
#!/bin/sh
there() { printf '%s' "$1" | sed "s#/data/local/tmp#$DEVICE/data/local/tmp#g"; }
case "$1" in
devices) echo "List of devices attached"; printf '%b' "$DEVICES"; exit ;;
-s) [ "$2" = phone1 ] || exit 1; shift 2 ;;
esac
case "$1" in
shell) PATH="$DEVICE/bin:$PATH" exec sh -c "$(there "$2")" ;;
push) cp "$2" "$(there "$3")" ;;
pull) cp "$(there "$2")" "$3" ;;
forward) echo "$*" >>"$DEVICE/forwards" ;;
*) echo "shim: $1?" >&2; exit 1 ;;
esac
SHIM
mkdir -p "$work/device/bin"
cat >"$work/device/bin/getprop" <<'SHIM'
#!/bin/sh
echo "$ABI"
SHIM
cat >"$work/device/bin/id" <<'SHIM'
#!/bin/sh
[ -n "$AS_ROOT" ] && echo 0 || echo 2000
SHIM
cat >"$work/device/bin/su" <<'SHIM'
#!/bin/sh
[ -n "$SU" ] || { echo "su: not found" >&2; exit 127; }
shift; AS_ROOT=yes exec sh -c "$1"
SHIM
chmod +x "$work/bin/adb" "$work"/device/bin/*
export DEVICE=$work/device ABI=arm64-v8a SU='' AS_ROOT='' DEVICES='phone1\tdevice\n' ENGINE_AARCH64=$engine
script=$PWD/scripts/adb.sh
run() { (cd "$work/out" && PATH="$work/bin:$PATH" "$script" "$@" 2>&1); }
# refused TEXT COMMAND...: checks that the command fails with this text and leaves nothing on the
# device.
refused() {
    local words=$1 said
    shift
    if said=$("$@"); then fail "'$*' should have failed: $said"; fi
    grep -qF "$words" <<<"$said" || fail "'$*' should have said '$words', and said: $said"
    [ -z "$(ls "$work/device/data/local/tmp")" ] || fail "'$*' left something on the device"
}

without() { (cd "$work/out" && PATH=$(dirname "$(command -v bash)"):/usr/bin:/bin "$script" 2>&1); }
if PATH=/usr/bin:/bin command -v adb >/dev/null; then
    echo "adb-shim: without adb: skipped: this host has one"
else
    refused "there is no adb here" without
fi
DEVICES='' refused "no device" run
DEVICES='phone1\tunauthorized\n' refused "does not trust this computer" run
DEVICES='phone1\toffline\n' refused "is not ready" run
DEVICES='phone1\tdevice\nphone2\tdevice\n' refused "ADB_SERIAL" run
ADB_SERIAL=phone9 refused "there is no device phone9" run
ABI=x86_64 refused "the engine is built for arm64-v8a" run
refused "not rooted" run
SU=yes refused "is no term of a filter" run 'port:1;reboot'
SU=yes refused "is no term of a filter" run --share-socket
SU=yes refused "which word" run yuzuri
SU=yes refused "cannot be passed on" run yuzuri send 'a;reboot'
SU=yes WEB_PORT=abc refused "WEB_PORT" run
SU=yes ENGINE_AARCH64=/nonexistent refused "there is no engine" run

# awaited TEXT LOG PID COMMAND...: waits until the command succeeds; fails with the text and the log
# after a timeout or if the process exits.
awaited() {
    local words=$1 log=$2 process=$3 deadline=$((SECONDS + 30))
    shift 3
    until "$@"; do
        [ $SECONDS -lt $deadline ] || fail "$words: $(cat "$log")"
        kill -0 "$process" 2>/dev/null || fail "it ended early: $(cat "$log")"
        sleep 0.1
    done
}
nothing_left() { [ -z "$(ls "$work/device/data/local/tmp")" ] || fail "something is left on the device"; }

# Another subcommand of the engine: a transfer between a real sender and a real receiver, whose
# recording is fetched.
"$engine" receive --bind 127.0.0.1 --port 0 --json >"$work/received" 2>&1 &
receiver=$!
listening() { port=$(sed -n 's/.*"address":"127.0.0.1:\([0-9]*\)".*/\1/p' "$work/received" | head -n 1) && [ -n "$port" ]; }
awaited "the receiver does not come" "$work/received" $receiver listening
said=$(SU=yes run yuzuri send "127.0.0.1:$port" --buffers 2 --record sent.arrows) || fail "sending failed: $said"
kill $receiver
wait $receiver || true
receiver=
grep -q 'recorded: .*sent.arrows' <<<"$said" || fail "nothing was recorded: $said"
SU=yes refused "the engine ended with code 1" run yuzuri send "127.0.0.1:$port" --buffers 1
nothing_left

if [ "$(id -u)" != 0 ]; then
    echo "adb-shim: watching: skipped: it needs root on this host"
    exit
fi
page() { (exec 3<>/dev/tcp/127.0.0.1/4949) 2>/dev/null; }
if page; then
    echo "adb-shim: watching: skipped: something here uses port 4949"
    exit
fi
# Ends by itself after a second, and on Ctrl-C.
said=$(SU=yes WATCH_SECONDS=1 WEB_PORT=4949 run port:9) || fail "watching failed: $said"
grep -q 'the page is at http://127.0.0.1:4949/#token=[0-9a-f]\{32\}' <<<"$said" || fail "the page's address was not printed: $said"
grep -q 'recorded: .*arrows' <<<"$said" || fail "nothing was recorded: $said"
(cd "$work/out" && PATH="$work/bin:$PATH" SU=yes exec setsid "$script" port:9) >"$work/said" 2>&1 &
pid=$!
awaited "the page does not come" "$work/said" $pid page
kill -TERM $pid
status=0
wait $pid || status=$?
pid=
[ $status = 143 ] || fail "ended by a signal it should say so, and ended with $status: $(cat "$work/said")"
nothing_left
! page || fail "the engine still runs"
[ "$(grep -c -- '--remove tcp:4949' "$work/device/forwards")" = 2 ] || fail "a forwarded port is left"
recordings=("$work"/out/*.arrows)
for recording in "${recordings[@]}"; do
    "$engine" replay "$recording" --json --speed 1000 >/dev/null || fail "$recording cannot be opened"
done

# Sharing in a separate network namespace: the congestion control is registered only while it runs.
registered() { controls | grep -q "adb_shim_$$"; }
controls() { cat /proc/sys/net/ipv4/tcp_available_congestion_control; }
before=$(controls)
if "$engine" doctor 2>/dev/null | grep -q '^window control .* missing '; then
    echo "adb-shim: sharing: skipped: this kernel cannot"
else
    (cd "$work/out" && PATH="$work/bin:$PATH" SU=yes exec setsid unshare --net sh -c "ip link set lo up && ip link add d0 type veth peer name d1 &&
        ip addr add 10.9.9.1/24 dev d0 && ip link set d0 up && ip link set d1 up && exec '$script' yuzuri share --keyless -i d0 --runtime . --state . --control adb_shim_$$") \
        >"$work/said" 2>&1 &
    pid=$!
    awaited "sharing does not begin" "$work/said" $pid registered
    kill -TERM $pid
    wait $pid || true
    pid=
    nothing_left
    [ "$(controls)" = "$before" ] || fail "sharing left a congestion control: $(controls)"
fi
echo "adb-shim: errors in words, watching, sending, sharing, recording, cleaning up: as they should be"
