#!/bin/sh
# First process of a guest. It prepares what a distribution would, runs /yuzuri/run, copies /results
# out and powers off. It reports to the host on the console, in frames that cannot occur in text:
# 0x1e WORD VALUE 0x1f.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8
say() { printf '\036%s\037' "$*"; }

mount -t proc proc /proc
mount -t sysfs sysfs /sys
[ -c /dev/null ] || mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm /dev/net /sys/fs/cgroup
mount -t devpts devpts /dev/pts
for place in /tmp /run /results /dev/shm; do mount -t tmpfs -o mode=1777,size=90% tmpfs $place; done
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tracefs tracefs /sys/kernel/tracing
mount -t debugfs debugfs /sys/kernel/debug
mount -t bpf bpf /sys/fs/bpf
ln -sf /proc/self/fd /dev/fd
mkdir -p /run/netns /run/lock
ip link set lo up
# The device node exists before its module: opening the node loads the module.
[ -c /dev/net/tun ] || mknod /dev/net/tun c 10 200
read -r up _ < /proc/uptime
say "booted $up"
while sleep 1; do
    read -r up _ < /proc/uptime
    say "time $up"
done &
heart=$!

# systemd's default.
ulimit -H -n 524288
cd /root
sh /yuzuri/run < /dev/null
code=$?
read -r up _ < /proc/uptime
say "ended $up $code"
kill $heart

if [ -n "$(ls -A /results)" ]; then
    modprobe -q virtio_mmio
    modprobe -q virtio_pci
    modprobe -q 9pnet_virtio
    if mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 results /mnt; then
        why=$(cp -r /results/. /mnt/ 2>&1) && say "copied 0" || say "failed copying the results out: $(echo $why)"
        umount /mnt
    else
        say "failed mounting the folder for the results"
    fi
else
    say "copied 0"
fi
poweroff -f
