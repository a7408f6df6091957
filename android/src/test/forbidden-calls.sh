#!/bin/sh
# Tests whether the engine runs under Android's seccomp filter for apps, as far as a filter of the
# same system calls on this kernel can show: forbidden-calls.sh FORBID ENGINE STARTER FOLDER, where
# FORBID is the compiled c/forbid.c. Without the starter the engine must fail (otherwise this filter
# forbids too little); with the starter it must send and record, stop at the end of its input, and
# report its end. Written for any POSIX shell, because guests have a small one.
set -eu
forbid=$1 engine=$2 starter=$3 out=$4
mkdir -p "$out"
fail() { echo "forbidden-calls: $*" >&2; exit 1; }
# seen PATTERN FILE: waits until a line of the file matches.
seen() {
    tries=0
    until grep -q "$1" "$2" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || fail "within 30 s no line '$1' in $2: $(tail -n 1 "$2")"
        sleep 0.1
    done
}

"$engine" receive --port 0 --bind 127.0.0.1 --json >"$out/receiver.txt" 2>&1 &
receiver=$!
trap 'kill $receiver 2>/dev/null || true' EXIT
seen '"type":"listening"' "$out/receiver.txt"
address=$(sed -n 's/.*"address":"\([0-9.:]*\)".*/\1/p' "$out/receiver.txt")

# Its input stays open as long as descriptor 3 is open here.
rm -f "$out/input"
mkfifo "$out/input"
exec 3<>"$out/input"
status=0
"$forbid" "$engine" send "$address" --json --time 1s <"$out/input" >"$out/alone.txt" 2>&1 3>&- || status=$?
[ $status = 159 ] || fail "alone the engine should get SIGSYS (128 + 31) here, and ended with $status: $(tail -n 1 "$out/alone.txt")"

"$forbid" "$starter" "$engine" send "$address" --json --connections 2 --time 1s --record "$out/own.arrows" --overwrite <"$out/input" >"$out/with.txt" 3>&- ||
    fail "with the starter the engine ended with $?: $(tail -n 1 "$out/with.txt")"
grep -q '"type":"summary".*"stopped":false' "$out/with.txt" || fail "it reported no summary: $(tail -n 1 "$out/with.txt")"
buffers=$(grep -c '"type":"buffer"' "$out/with.txt")
[ "$buffers" -gt 4 ] || fail "with the starter only $buffers buffers were sent"
"$engine" replay "$out/own.arrows" --json --speed 1000 >"$out/replayed.txt" || fail "its recording cannot be read"
samples=$(grep -c '"kind":"sample"' "$out/replayed.txt")
[ "$samples" -gt 4 ] || fail "with the starter only $samples samples were recorded"

# Sharing needs system calls that the filter forbids: the engine reports this and makes the
# transfer.
status=0
"$forbid" "$starter" "$engine" send "$address" --json --time 1s --share --share-keyless <"$out/input" >"$out/shared.txt" 3>&- 2>&1 ||
    status=$?
[ $status = 3 ] || fail "where it may not share it should end with 3, and ended with $status: $(tail -n 1 "$out/shared.txt")"
grep -q '"type":"warning","kind":"sharing"' "$out/shared.txt" || fail "it did not say that it cannot share"
grep -q '"type":"summary".*"stopped":false' "$out/shared.txt" || fail "where it may not share it did not send"

"$forbid" "$starter" "$engine" send "$address" --json --time 0s <"$out/input" >"$out/stopped.txt" 3>&- &
sender=$!
seen '"type":"buffer"' "$out/stopped.txt"
exec 3>&-
wait $sender || fail "stopped by the end of its input it ended with $?"
grep -q '"type":"summary".*"stopped":true' "$out/stopped.txt" || fail "stopped by the end of its input it reported no summary"
echo "forbidden-calls: $(uname -m), Linux $(uname -r): alone SIGSYS; with the starter $buffers buffers over 2 connections, $samples samples recorded; stopped by the end of its input"
