#!/usr/bin/env bash
# Runs some settings of crates/yuzuri-eval/data/ns3_3.48.csv in ns-3 (3.44, from PyPI) with different minimum
# retransmission timeouts, and in the simulation with ns-3's behaviour. Prints a table of means over
# three seeds. Takes about five minutes, and 500 MB in target/ns3.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
release=3.44.post0
home=target/ns3
if [ "$(cat $home/installed 2>/dev/null)" != "$release" ]; then
    echo "compare-ns3: installing ns-3 $release into $home (500 MB on disk)" >&2
    python3 -m venv --clear $home
    $home/bin/pip install --quiet --disable-pip-version-check "ns3==$release"
    echo "$release" > $home/installed
fi
ns3=$(echo $home/lib/python3.*/site-packages/ns3)
modules=(core network internet point-to-point wifi mobility applications traffic-control stats propagation spectrum antenna)
if [ ! $home/cell -nt scripts/ns3/cell.cc ]; then
    echo "compare-ns3: building scripts/ns3/cell.cc" >&2
    g++ -O2 -std=c++20 -I"$ns3/include" scripts/ns3/cell.cc -o $home/cell -L"$ns3/lib64" "${modules[@]/#/-lns3.44-}" \
        -Wl,-rpath,"$PWD/$ns3/lib64" -Wl,--unresolved-symbols=ignore-in-shared-libs
fi

# row NAME MIN_RTOS ARGS...: one setting, with this tag and these minimum RTOs. (Below 1 s some runs
# of ns-3 at 512 ms do not end.)
row() {
    local name=$1 least leasts=$2
    shift 2
    for least in $leasts; do
        printf '%s, %s s|' "$name" "$least"
        for seed in 1 2 3; do echo "$@" --min_rto_s=$least --seed=$seed; done |
            xargs -P "$(nproc)" -L 1 $home/cell |
            awk '{ for (n = 1; n <= NF; n++) sum[n] += $n } END { printf "%.1f|%.2f|%.0f|%.0f|%.0f|%.1f\n", sum[1] / NR, sum[2] / NR, sum[3] / NR, sum[4] / NR, sum[5] / NR, sum[6] / NR }'
    done
}
echo "ns-3 $release, minimum RTO|Mbit/s|Jain|RTT, ms|timeouts|recoveries|retransmitted, %"
row n6_64 "0.2 0.5 1" --standard=n --stations=6 --duration_s=30
row n16_64 "0.2 0.5 1" --standard=n --stations=16 --duration_s=20
row ac1_512_100 1 --standard=ac --stations=1 --rtt_ms=512 --duration_s=60
row ac4_512_100 1 --standard=ac --stations=4 --rtt_ms=512 --duration_s=60
echo
cargo build --release --locked --quiet -p yuzuri-eval
for tag in n6_64 n16_64 ac1_512_100 ac4_512_100; do target/release/yuzuri-eval simulation ns3 "$tag"; done
