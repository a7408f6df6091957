#!/usr/bin/env python3
"""Makes captures by lot on this machine's kernel: a sender, a router and a receiver in network
namespaces, veth pairs with TSO and GRO as they come, TBF as bottleneck, and delay by netem where the
kernel has it. As root.

    scripts/wild-captures.py --seed 7 --runs 24 --out FOLDER

Each run draws what limits its flow and the sender's congestion control, and is captured at both ends:
FOLDER/KIND_CONTROL_SEED-NUMBER.snd.pcap and .rcv.pcap. The kinds:

    window       a bulk transfer; the path's queue overflows
    several      two to four of them at once
    device       a bulk transfer behind the sender's own TBF, whose queue holds more than TCP small queues let in
    application  the application writes at a steady rate below the path's
    pacing       SO_MAX_PACING_RATE below the path's rate
    receiver     the receiver's buffer is smaller than the path holds, with its queue

A queue that the window overflows is limited by the window, wherever it is: of the kinds that the window
does not limit none has one.
"""
import argparse
import os
import pathlib
import random
import socket
import struct
import subprocess
import sys
import time

KINDS = ["window", "several", "device", "application", "pacing", "receiver"]
CONTROLS = ["reno", "cubic", "bbr"]
PORT = 5201
SNAPLEN_BYTES = 110
SO_MAX_PACING_RATE = 47
SO_TIMESTAMPNS = 35
PACKET_OUTGOING = 4
ETH_P_ALL = 3


def run(*words):
    subprocess.run(words, check=True)


def capture(interface, path, seconds):
    """Writes what passes an interface until the time is over."""
    source = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUFFORCE if hasattr(socket, "SO_RCVBUFFORCE") else 33, 64 << 20)
    source.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    source.bind((interface, ETH_P_ALL))
    source.settimeout(0.2)
    until = time.monotonic() + seconds
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAPLEN_BYTES, 1))
        print("ready", flush=True)
        while time.monotonic() < until:
            try:
                frame, extra, _, _ = source.recvmsg(SNAPLEN_BYTES, 64, socket.MSG_TRUNC)
            except TimeoutError:
                continue
            stamp = next(data for level, kind, data in extra if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS)
            seconds_since, nanoseconds = struct.unpack("qq", stamp)
            # The length on the wire is that of the IP packet, and of Ethernet's header before it.
            on_wire = max(len(frame), 14 + int.from_bytes(frame[16:18], "big")) if frame[12:14] == b"\x08\x00" else len(frame)
            out.write(struct.pack("<IIII", seconds_since, nanoseconds, len(frame), on_wire) + frame)


def receive(count, buffer_bytes, seconds):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if buffer_bytes:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    listener.bind(("10.0.2.2", PORT))
    listener.listen(16)
    print("ready", flush=True)
    flows = [listener.accept()[0] for _ in range(count)]
    for flow in flows:
        flow.setblocking(False)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for flow in flows:
            try:
                flow.recv(1 << 20)
            except BlockingIOError:
                pass
        time.sleep(0.001)


def send(control, count, pacing_bytes_s, write_bytes_s, seconds):
    flows = []
    for _ in range(count):
        flow = socket.socket()
        flow.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        flow.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if pacing_bytes_s:
            flow.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, pacing_bytes_s)
        flow.connect(("10.0.2.2", PORT))
        flow.setblocking(False)
        flows.append(flow)
    began = time.monotonic()
    written, chunk = 0, bytes(64 << 10)
    while (now := time.monotonic() - began) < seconds:
        for flow in flows:
            room = len(chunk) if not write_bytes_s else min(len(chunk), int(now * write_bytes_s) - written)
            if room <= 0:
                continue
            try:
                written += flow.send(chunk[:room])
            except BlockingIOError:
                pass
        time.sleep(0.001 if not write_bytes_s else 0.01)


class Net:
    """Three namespaces in a row."""

    def __init__(self, name):
        self.sender, self.router, self.receiver = names = [f"yzw{name}{end}" for end in "arb"]
        for namespace in names:
            run("ip", "netns", "add", namespace)
        for left, right, number in ((self.sender, self.router, 1), (self.router, self.receiver, 2)):
            ends = [f"to{right[-1]}", f"to{left[-1]}"]
            run("ip", "-n", left, "link", "add", ends[0], "type", "veth", "peer", "name", ends[1], "netns", right)
            hosts = (2, 1) if number == 1 else (1, 2)
            for namespace, end, host in zip((left, right), ends, hosts):
                run("ip", "-n", namespace, "address", "add", f"10.0.{number}.{host}/24", "dev", end)
                run("ip", "-n", namespace, "link", "set", end, "up")
        run("ip", "-n", self.sender, "route", "add", "default", "via", "10.0.1.1")
        run("ip", "-n", self.receiver, "route", "add", "default", "via", "10.0.2.1")
        run("ip", "netns", "exec", self.router, "sysctl", "-qw", "net.ipv4.ip_forward=1")

    def shape(self, namespace, interface, rate_bps, queue_bytes):
        run("tc", "-n", namespace, "qdisc", "add", "dev", interface, "root", "tbf", "rate", f"{rate_bps}bit",
            "burst", "6000", "limit", str(queue_bytes))

    def delay(self, delay_ms):
        """On the way back. Whether the kernel can."""
        words = ["tc", "-n", self.router, "qdisc", "add", "dev", "toa", "root", "netem", "delay", f"{delay_ms}ms", "limit", "10000"]
        return subprocess.run(words, stderr=subprocess.DEVNULL, check=False).returncode == 0

    def remove(self):
        for namespace in (self.sender, self.router, self.receiver):
            subprocess.run(["ip", "netns", "delete", namespace], check=False)


def start(namespace, *words, ready=True):
    command = ["ip", "netns", "exec", namespace, sys.executable, __file__, "--role", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    if ready and process.stdout.readline() != "ready\n":
        raise RuntimeError(f"{words[0]} did not start")
    return process


def one(rng, number, seed, folder, seconds):
    kind, control = rng.choice(KINDS), rng.choice(CONTROLS)
    rate_bps = int(4e6 * 5 ** rng.random())
    delay_ms = int(10 * 8 ** rng.random())
    queue_bytes = max(20_000, int(rate_bps / 8 * delay_ms / 1000 * rng.uniform(0.5, 2.0)))
    part = rng.uniform(0.2, 0.7)
    count = rng.randint(2, 4) if kind == "several" else 1
    buffer_bytes = rng.choice([8, 16, 32]) << 10
    if kind in ("device", "application", "pacing", "receiver"):
        queue_bytes = 4_000_000
    name = f"{kind}_{control}_{seed}-{number}"
    net = Net(f"{os.getpid()}")
    running = []
    try:
        below_bytes_s = int(rate_bps / 8 * part)
        if kind == "device":
            net.shape(net.sender, "tor", rate_bps, queue_bytes)
        else:
            net.shape(net.router, "tob", rate_bps, queue_bytes)
        has_delay = net.delay(delay_ms)
        for namespace, interface, side in ((net.sender, "tor", "snd"), (net.receiver, "tor", "rcv")):
            running.append(start(namespace, "capture", interface, folder / f"{name}.{side}.pcap", seconds + 1))
        receiver_bytes = buffer_bytes if kind == "receiver" else 0
        running.append(start(net.receiver, "receive", count, receiver_bytes, seconds + 0.5))
        running.append(start(net.sender, "send", control, count, below_bytes_s if kind == "pacing" else 0,
                             below_bytes_s if kind == "application" else 0, seconds, ready=False))
        for process in running:
            process.wait(timeout=seconds + 30)
        print(f"{name}: {rate_bps / 1e6:.1f} Mbit/s, {delay_ms if has_delay else 0} ms, queue of {queue_bytes} B", flush=True)
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
        net.remove()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, required=True, help="of the lots")
    options.add_argument("--runs", type=int, default=24, help="captured transfers (24)")
    options.add_argument("--seconds", type=float, default=15.0, help="length of each transfer (15)")
    options.add_argument("--out", type=pathlib.Path, required=True, help="folder for the captures")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(given.seed)
    for number in range(given.runs):
        one(rng, number, given.seed, given.out, given.seconds)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--role"]:
        role, *words = sys.argv[2:]
        if role == "capture":
            capture(words[0], words[1], float(words[2]))
        elif role == "receive":
            receive(int(words[0]), int(words[1]), float(words[2]))
        else:
            send(words[0], *map(int, words[1:4]), float(words[4]))
    else:
        main()
