#!/usr/bin/env bash
# Runs Yuzuri on a rooted Android device over USB:
#   adb.sh [FILTER...]     watches its TCP flows, with the page and a recording; filters as in `yuzuri watch`
#   adb.sh yuzuri ARG...   runs a command: doctor, send SERVER, share --keyless --runtime . --state . ...
# Copies the arm64 engine to a folder below /data/local/tmp and runs it there as root. While
# watching, the page is forwarded to port 4949 on this host, at the printed address. Ctrl-C ends it;
# recordings (*.arrows) are then copied to the current folder, and everything is removed from the
# device. ENGINE_AARCH64=path uses an existing engine, ADB_SERIAL selects one of several devices,
# WEB_PORT another port on this host, and WATCH_SECONDS limits the duration.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."
say() { printf 'adb: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
port=${WEB_PORT:-4949}
REMOTE_PORT=4949
folder=/data/local/tmp/yuzuri-$$

case "$port" in '' | *[!0-9]*) fail "WEB_PORT is '$port': give a port number" ;; esac
case "${WATCH_SECONDS:-1}" in *[!0-9]*) fail "WATCH_SECONDS is '$WATCH_SECONDS': give a number" ;; esac
# Arguments pass through two shells: reject characters that no valid argument has.
if [ "${1:-}" = yuzuri ]; then
    shift
    [ $# != 0 ] || fail "name a command: see yuzuri --help"
    for word in "$@"; do
        [[ $word =~ ^[][A-Za-z0-9_.:/@%+=,-]+$ ]] || fail "'$word' cannot be passed on to the device"
    done
    words=$*
else
    for word in "$@"; do
        [[ $word =~ ^[A-Za-z0-9_.:/@%+-]+$ && $word != -* ]] || fail "'$word' is no term of a filter: see yuzuri watch --help"
    done
    words=
fi

command -v adb >/dev/null || fail "there is no adb here: install it (Debian: apt install adb), and switch on USB debugging on the device"
devices=$(adb devices | sed -n 's/^\([^[:space:]]\{1,\}\)[[:space:]]\{1,\}\([a-z]\{1,\}\).*/\1 \2/p' | grep -v '^List ') || true
serial=${ADB_SERIAL:-}
if [ -z "$serial" ]; then
    [ -n "$devices" ] || fail "no device: connect it, switch on USB debugging, and allow this computer on its screen"
    [ "$(wc -l <<<"$devices")" = 1 ] || fail "several devices: name one by ADB_SERIAL=... of: $(cut -d' ' -f1 <<<"$devices" | paste -sd' ')"
    serial=${devices%% *}
fi
case "$(sed -n "s/^$serial //p" <<<"$devices")" in
device) ;;
unauthorized) fail "$serial does not trust this computer yet: allow it on the device's screen" ;;
'') fail "there is no device $serial; there are: ${devices:-none}" ;;
*) fail "$serial is not ready ($(sed -n "s/^$serial //p" <<<"$devices")): unplug it, plug it in again" ;;
esac
adb=(adb -s "$serial")
shell() { "${adb[@]}" shell "$*"; }

abi=$(shell getprop ro.product.cpu.abi | tr -d '\r')
[ "$abi" = arm64-v8a ] || fail "the device is ${abi:-unknown}: the engine is built for arm64-v8a"
# Become root: adb's shell already is, or su is available.
if [ "$(shell id -u | tr -d '\r')" = 0 ]; then
    root() { shell "$*"; }
elif [ "$(shell "su -c 'id -u'" 2>/dev/null | tr -d '\r')" = 0 ]; then
    root() { shell "su -c '$*'"; }
else
    fail "the device is not rooted, or its root manager refuses adb's shell: the engine needs root. Without it, use the app (docs/android.md)"
fi

engine=${ENGINE_AARCH64:-}
[ -n "$engine" ] || engine=$(scripts/static-build.sh aarch64 | tail -n 1)
case $engine in /*) ;; *) engine=$here/$engine ;; esac
[ -f "$engine" ] || fail "there is no engine at $engine"

running=
made=
forwarded=
# Copies a recording from the device; returns false if that failed.
fetch() {
    local there=$1 name
    name=$here/android-$(date +%Y%m%d-%H%M%S)-$(basename "$there")
    # The recording belongs to root; adb may run as another user.
    root "chmod 644 $there" >/dev/null 2>&1 || true
    if "${adb[@]}" pull "$there" "$name" >/dev/null 2>&1; then
        say "recorded: $name (yuzuri replay $name)"
    else
        say "the recording could not be fetched: it stays on the device as $there"
        return 1
    fi
}
clean() {
    trap '' INT TERM
    [ -n "$made" ] || return 0
    # On SIGTERM the engine shuts down cleanly.
    root "[ ! -e $folder/pid ] || kill \$(cat $folder/pid)" >/dev/null 2>&1 || true
    [ -z "$running" ] || wait "$running" 2>/dev/null || true
    [ -z "$forwarded" ] || "${adb[@]}" forward --remove "tcp:$port" >/dev/null 2>&1 || true
    local there kept=
    for there in $(shell "ls $folder" 2>/dev/null | tr -d '\r' | grep '\.arrows$'); do
        fetch "$folder/$there" || kept=yes
    done
    [ -n "$kept" ] || root "rm -rf $folder" >/dev/null 2>&1 || say "$folder could not be removed from the device"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

made=yes
shell "mkdir -p $folder" >/dev/null || fail "cannot make $folder on the device: is its storage full?"
say "copying the engine to $serial ($(stat -c %s "$engine") bytes)"
"${adb[@]}" push "$engine" "$folder/yuzuri" >/dev/null || fail "cannot copy the engine to the device: is its storage full?"
shell "chmod 755 $folder/yuzuri" >/dev/null
if [ -z "$words" ]; then
    "${adb[@]}" forward "tcp:$port" "tcp:$REMOTE_PORT" >/dev/null ||
        fail "port $port here cannot be used for the page: choose another by WEB_PORT=..."
    forwarded=yes
    words="watch --quiet --web 127.0.0.1:$REMOTE_PORT --record watch.arrows${WATCH_SECONDS:+ --for ${WATCH_SECONDS}s} $*"
    say "watching; the engine prints the page's address; Ctrl-C ends it and fetches the recording"
    # The address contains a token known only to the engine, and the port on the device.
    exec 4> >(trap '' INT TERM; exec sed -u "s|http://127.0.0.1:$REMOTE_PORT/|http://127.0.0.1:$port/|") 5> >(trap '' INT TERM; exec sed -u "s|http://127.0.0.1:$REMOTE_PORT/|http://127.0.0.1:$port/|" >&2)
else
    exec 4>&1 5>&2
fi
root "cd $folder && echo \$\$ >pid && exec ./yuzuri $words" </dev/null >&4 2>&5 &
running=$!
status=0
wait "$running" || status=$?
running=
[ $status = 0 ] || fail "the engine ended with code $status: see its messages above"
