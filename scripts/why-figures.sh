#!/usr/bin/env bash
# Makes transfers with a known limit, drawn by lot, in network namespaces on this machine's kernel, and
# prints how much of the time `yuzuri why` has the right word, by what observes, beside the kernel's
# chronographs (`ss -ti`) and the words of the expert of tshark. crates/yuzuri-eval/src/why/case.rs is what is drawn. As root.
#
#     scripts/why-figures.sh SEED ROUNDS [arguments of yuzuri-eval why make]
#
# Each round takes 3 minutes. The programs run at the highest priority: a path that carries packets late
# has a queue that nobody made. What was made is kept in target/why/SEED, and not made again.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
seed=$1 rounds=$2
shift 2
built=${YUZURI_BUILT:-target/release}
folder=target/why/$seed
if [ "$(id -u)" != 0 ]; then
    echo "why-figures: making network namespaces needs root: sudo make why-figures" >&2
    exit 1
fi
if [ ! -e "$folder/done" ]; then
    nice -n -20 "$built/yuzuri-eval" why make --seed "$seed" --rounds "$rounds" --yuzuri "$built/yuzuri" "$@" "$folder" >&2
    touch "$folder/done"
fi
"$built/yuzuri-eval" why judge --list "$folder" >"$folder/cases.txt"
sed -n '/^Per cent/,$p' "$folder/cases.txt"
echo "why-figures: each case is in $folder/cases.txt" >&2
