#!/usr/bin/env bash
# Watches the TCP flows of a rooted Android device over USB: adb.sh [FILTER...], with the filter's terms as `yuzuri watch` has them.
# Puts the arm64 engine into /data/local/tmp, starts `watch` there as root with the page and a recording, and brings the
# page to http://127.0.0.1:4949 here. Ctrl-C ends it, fetches the recording into the present folder, and removes everything
# from the device. ENGINE_AARCH64=path takes an engine that is there already, ADB_SERIAL names one device of several, WEB_PORT
# another port here, WATCH_SECONDS ends it by itself.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."
say() { printf 'adb: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
port=${WEB_PORT:-4949}
REMOTE_PORT=4949
folder=/data/local/tmp/yuzuri-$$

case "$port" in '' | *[!0-9]*) fail "WEB_PORT is '$port': give the number of a port" ;; esac
case "${WATCH_SECONDS:-1}" in *[!0-9]*) fail "WATCH_SECONDS is '$WATCH_SECONDS': give a number" ;; esac
# They go through two shells on the way: what a filter never has is refused.
for word in "$@"; do
    [[ $word =~ ^[A-Za-z0-9_.:/@%+-]+$ && $word != -* ]] || fail "'$word' is no term of a filter: see yuzuri watch --help"
done

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
# As root: either adb's shell is, or su makes it so.
if [ "$(shell id -u | tr -d '\r')" = 0 ]; then
    root() { shell "$*"; }
elif [ "$(shell "su -c 'id -u'" 2>/dev/null | tr -d '\r')" = 0 ]; then
    root() { shell "su -c '$*'"; }
else
    fail "the device is not rooted, or its root manager refuses adb's shell: watching needs root. Without it, use the app (docs/android.md)"
fi

engine=${ENGINE_AARCH64:-}
[ -n "$engine" ] || engine=$(scripts/static-build.sh aarch64 | tail -n 1)
case $engine in /*) ;; *) engine=$here/$engine ;; esac
[ -f "$engine" ] || fail "there is no engine at $engine"

watching=
made=
clean() {
    trap '' INT TERM
    [ -n "$made" ] || return 0
    # The engine ends its recording when it gets SIGTERM.
    root "[ ! -e $folder/pid ] || kill \$(cat $folder/pid)" >/dev/null 2>&1 || true
    [ -z "$watching" ] || wait "$watching" 2>/dev/null || true
    "${adb[@]}" forward --remove "tcp:$port" >/dev/null 2>&1 || true
    if shell "ls $folder/watch.arrows" >/dev/null 2>&1; then
        local name
        name=$here/android-$(date +%Y%m%d-%H%M%S).arrows
        # It is root's: adb may not be.
        root "chmod 644 $folder/watch.arrows" >/dev/null 2>&1 || true
        if "${adb[@]}" pull "$folder/watch.arrows" "$name" >/dev/null 2>&1; then
            say "recorded: $name (yuzuri replay $name)"
        else
            say "the recording could not be fetched: it stays on the device as $folder/watch.arrows"
            return 0
        fi
    fi
    root "rm -rf $folder" >/dev/null 2>&1 || say "$folder could not be removed from the device"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

made=yes
shell "mkdir -p $folder" >/dev/null || fail "cannot make $folder on the device: is its storage full?"
say "copying the engine to $serial ($(stat -c %s "$engine") bytes)"
"${adb[@]}" push "$engine" "$folder/yuzuri" >/dev/null || fail "cannot copy the engine to the device: is its storage full?"
shell "chmod 755 $folder/yuzuri" >/dev/null
"${adb[@]}" forward "tcp:$port" "tcp:$REMOTE_PORT" >/dev/null ||
    fail "port $port here cannot be used for the page: choose another by WEB_PORT=..."
for_time=
[ -z "${WATCH_SECONDS:-}" ] || for_time="--for ${WATCH_SECONDS}s"
say "watching; the page: http://127.0.0.1:$port; Ctrl-C ends it and fetches the recording"
root "echo \$\$ >$folder/pid; exec $folder/yuzuri watch --quiet --web 127.0.0.1:$REMOTE_PORT --record $folder/watch.arrows $for_time $*" </dev/null &
watching=$!
status=0
wait "$watching" || status=$?
watching=
[ $status = 0 ] || fail "watching ended with code $status: see what it said above"
