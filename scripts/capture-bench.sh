#!/usr/bin/env bash
# Measures how fast captures are read (yuzuri-capture) and windows reconstructed (yuzuri-infer: by
# one thread, and by as many threads as there are cores, up to the four of yuzuri-identify, each of
# which reads the file and follows its share of the flows). Prints packets per second next to
# tcptrace and `tshark -T fields`, for a generated file in the page cache. The figures are medians
# of ROUNDS rounds (5), in wall-clock time including program start. Each program runs twice per
# round, and the second run counts. tshark reads the first 100,000 packets.
#   PACKETS (2000000), FLOWS (1000), SNAPLEN (96), SEED (1)
#   PCAPNG=1: the file is converted to pcapng (Wireshark's editcap).
#   INSTRUCTIONS=1: counts instructions instead (valgrind), by one thread and by the busier of two:
#   the same on a busy machine. PACKETS=200000 takes a minute.
#   YUZURI_EVAL: the built yuzuri-eval
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
packets=${PACKETS:-2000000} flows=${FLOWS:-1000} snaplen=${SNAPLEN:-96} seed=${SEED:-1} rounds=${ROUNDS:-5}
tshark_packets=$((packets < 100000 ? packets : 100000))
evaluate=${YUZURI_EVAL:-}
if [ -z "$evaluate" ]; then
    cargo build --locked --quiet --release -p yuzuri-eval
    evaluate=${CARGO_TARGET_DIR:-target}/release/yuzuri-eval
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
file=$folder/synthetic.pcap
"$evaluate" capture synthesise "$packets" "$seed" "$flows" "$snaplen" "$file"

if [ -n "${PCAPNG:-}" ]; then
    editcap -F pcapng "$file" "${file}ng"
    file+=ng
fi

if [ -n "${INSTRUCTIONS:-}" ]; then
    command -v valgrind >/dev/null || { echo "valgrind, which counts the instructions, is not installed: apt-get install valgrind" >&2; exit 1; }
    # The instructions of the busiest thread.
    instructions() {
        rm -f "$folder"/count*
        valgrind --quiet --tool=callgrind --separate-threads=yes --callgrind-out-file="$folder/count" \
            "$evaluate" capture rebuild "$file" --threads "$1" >/dev/null 2>&1
        awk '$1 == "totals:" && $2 > most { most = $2 } END { print most }' "$folder"/count*
    }
    one=$(instructions 1) two=$(instructions 2)
    awk -v n="$packets" -v one="$one" -v two="$two" -v flows="$flows" -v seed="$seed" 'BEGIN {
        printf "%d packets of %d flows, seed %d: %.0f instructions a packet by one thread, two threads %.2f times as fast\n", n, flows, seed, one / n, one / two
    }'
    exit
fi
windows() { "$evaluate" capture rebuild "$file"; }
threads=$(nproc)
windows_spread() { "$evaluate" capture rebuild "$file" --threads $((threads < 4 ? threads : 4)); }
yuzuri() { "$evaluate" capture count "$file"; }
tcptrace_all() { tcptrace -n "$file"; }
tshark_fields() {
    tshark -n -r "$file" -c "$tshark_packets" -T fields -e frame.time_epoch -e ip.src -e tcp.srcport -e ip.dst -e tcp.dstport \
        -e tcp.seq_raw -e tcp.ack_raw -e tcp.len -e tcp.flags -e tcp.window_size_value \
        -e tcp.options.timestamp.tsval -e tcp.options.timestamp.tsecr
}
# Row name, program, number of packets that it reads.
rows=("windows windows $packets" "windows-spread windows_spread $packets" "yuzuri-capture yuzuri $packets")
if command -v tcptrace >/dev/null; then rows+=("tcptrace tcptrace_all $packets"); else echo "tcptrace: skipped: not installed"; fi
if command -v tshark >/dev/null; then rows+=("tshark tshark_fields $tshark_packets"); else echo "tshark: skipped: not installed"; fi

# Check that the measured program has read the whole file.
found=$(yuzuri | awk '$1 == "packets:" && !n++ { print $2 + 0 }')
[ "$found" = "$packets" ] || { echo "yuzuri-capture read $found of $packets packets" >&2; exit 1; }
if command -v tcptrace >/dev/null; then
    tcptrace_all 2>/dev/null | grep "^$packets packets seen, $packets TCP packets traced" >/dev/null ||
        { echo "tcptrace did not read all packets" >&2; exit 1; }
fi
if command -v tshark >/dev/null; then
    [ "$(tshark_fields 2>/dev/null | wc -l)" = "$tshark_packets" ] || { echo "tshark did not read all packets" >&2; exit 1; }
fi

bytes=$(stat -c %s "$file")
echo "$packets packets of $flows flows, $((bytes / packets)) bytes each in the file (snaplen $snaplen), seed $seed; medians of $rounds"
for ((round = 0; round < rounds; round++)); do
    for row in "${rows[@]}"; do
        read -r name program count <<<"$row"
        # Run once without measuring. Otherwise a program would pay for memory that its predecessor
        # returned and that a virtual machine's host may have reclaimed.
        "$program" >/dev/null 2>&1
        begin=${EPOCHREALTIME/./}
        "$program" >/dev/null 2>&1
        end=${EPOCHREALTIME/./}
        echo "$name $count $((end - begin))" >>"$folder/times"
    done
done
for row in "${rows[@]}"; do
    read -r name _ count <<<"$row"
    us=$(awk -v name="$name" '$1 == name { print $3 }' "$folder/times" | sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }')
    speed=$(awk -v n="$count" -v us="$us" 'BEGIN { print n / us }')
    case $name in windows) ours=$speed ;; windows-spread) spread=$speed ;; esac
    awk -v name="$name" -v n="$count" -v us="$us" -v ours="$ours" -v spread="${spread:-0}" \
        'BEGIN {
            printf "%-15s %12.0f packets/s %8.3f s for %d packets", name, n / us * 1e6, us / 1e6, n
            if (name ~ /^windows/) print ""; else printf "; windows are rebuilt %.2f times as fast by one thread, %.2f spread\n", ours / (n / us), spread / (n / us)
        }'
done
