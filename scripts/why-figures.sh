#!/usr/bin/env bash
# Makes randomly drawn transfers with a known limit, and prints for which fraction of the time
# `yuzuri why` reports the right limit, for each source of observations, next to the kernel's
# chronographs (`ss -ti`) and tshark's expert information. crates/yuzuri-eval/src/why/case.rs draws
# the transfers.
#
#     scripts/why-figures.sh SEED ROUNDS [arguments of yuzuri-eval why make]
#
# By default in virtual time: each round runs in a guest whose clock counts instructions
# (docs/virtual-time.md), so that other work on this machine has no effect; JOBS guests run at once.
# With CLOCK=real, as root, in network namespaces on this machine's kernel, at the highest priority:
# the path is a program, and forwarding packets late creates a queue that is not part of the case.
# Finished rounds are kept in target/why/SEED, and not repeated.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
seed=$1 rounds=$2
shift 2
built=${YUZURI_BUILT:-target/release}
clock=${CLOCK:-virtual}
fail() { echo "why-figures: $*" >&2; exit 1; }

# in_guest ROUND [ARGUMENT...]: runs a round in a guest.
in_guest() {
    local round=$1 made=$folder/round-$1
    shift
    [ ! -e "$made" ] || return 0
    rm -rf "$made.partial"
    # Four instructions per nanosecond: all programs share one processor, and waiting for it would
    # be another limit.
    "$built/yuzuri-vm" run --quiet --kernel 6.12 --mips 4000 --memory 2048 --seed "$seed" --timeout 86400 \
        --results "$made.partial" --file "$built/yuzuri:/opt/yuzuri" --file "$dumpcap:/usr/bin/dumpcap" \
        "$built/yuzuri-eval" why make --seed "$seed" --first-round "$round" --rounds 1 --yuzuri /opt/yuzuri \
        "$@" /results/cases >&2
    mv "$made.partial" "$made"
}

case $clock in
virtual)
    folder=target/why/$seed
    dumpcap=$(command -v dumpcap) || fail "dumpcap is missing: scripts/setup.sh test installs it"
    mkdir -p "$folder"
    export -f in_guest
    export seed folder built dumpcap
    seq 0 $((rounds - 1)) | xargs -P "${JOBS:-$(nproc)}" -I ROUND bash -euo pipefail -c 'in_guest "$@"' - ROUND "$@"
    folders=()
    for round in $(seq 0 $((rounds - 1))); do folders+=("$folder/round-$round/cases"); done
    ;;
real)
    folder=target/why/$seed-real
    [ "$(id -u)" = 0 ] || fail "making network namespaces needs root: sudo make why-figures CLOCK=real"
    if [ ! -e "$folder/done" ]; then
        nice -n -20 "$built/yuzuri-eval" why make --seed "$seed" --rounds "$rounds" --yuzuri "$built/yuzuri" "$@" "$folder" >&2
        touch "$folder/done"
    fi
    folders=("$folder")
    ;;
*) fail "CLOCK is virtual or real, not $clock" ;;
esac
"$built/yuzuri-eval" why judge --list "${folders[@]}" >"$folder/cases.txt"
sed -n '/^Per cent/,$p' "$folder/cases.txt"
echo "why-figures: each case is in $folder/cases.txt" >&2
