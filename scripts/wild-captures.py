#!/usr/bin/env python3
"""Makes captures of randomly drawn transfers on this machine's kernel: a sender, a router and a
receiver in network namespaces, connected by veth pairs with the default TSO and GRO, with TBF as
bottleneck and, where the kernel has it, netem for delay. Needs root.

    scripts/wild-captures.py --seed 7 --runs 24 --out FOLDER

Each run draws the limit of its flow and the sender's congestion control. The captures at both ends
are FOLDER/KIND_CONTROL_SEED-NUMBER.snd.pcap and .rcv.pcap. The kinds:

    window       a bulk transfer; the path's queue overflows
    several      two to four bulk transfers at once
    device       a bulk transfer behind the sender's own TBF, whose queue holds more than TCP small queues let in
    application  the application writes at a steady rate below the path's
    pacing       SO_MAX_PACING_RATE below the path's rate
    receiver     the receiver's buffer is smaller than the path's capacity including its queue

A flow whose window overflows a queue is limited by the window, wherever the queue is. Therefore no
queue overflows in the kinds with another limit.

--kinds and --controls restrict the draw to these. --thin makes the router drop all but each second to
eighth pure ACK without SACK blocks. --loss makes the router drop up to 1 % of the data packets at
random. --stalls stops the sending and the receiving program now and then, for 30 to 600 ms. --poll
writes FOLDER/KIND_CONTROL_SEED-NUMBER_INTERVAL.ss.txt, the output of `ss -tin` at the sender, at an
interval of 20 to 500 ms. The draws of these options do not change the other draws of a seed.
"""
import argparse
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

KINDS = ["window", "several", "device", "application", "pacing", "receiver"]
CONTROLS = ["reno", "cubic", "bbr"]
PORT = 5201
SNAPLEN_BYTES = 110
SO_MAX_PACING_RATE = 47
SO_TIMESTAMPNS = 35
PACKET_OUTGOING = 4
ETH_P_ALL = 3
# Allowance for a busy machine to start programs, seconds.
LATE_SECONDS = 30


def run(*words):
    subprocess.run(words, check=True)


def until_told(seconds):
    """Returns a function that is true until SIGTERM, for at most this time."""
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(True))
    until = time.monotonic() + seconds
    return lambda: not told and time.monotonic() < until


def capture(interface, path, seconds):
    """Captures an interface until SIGTERM."""
    source = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUFFORCE if hasattr(socket, "SO_RCVBUFFORCE") else 33, 64 << 20)
    source.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    source.bind((interface, ETH_P_ALL))
    source.settimeout(0.2)
    goes_on = until_told(seconds)
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAPLEN_BYTES, 1))
        print("ready", flush=True)
        while True:
            try:
                frame, extra, _, _ = source.recvmsg(SNAPLEN_BYTES, 64, socket.MSG_TRUNC)
            except TimeoutError:
                # Before the end, write what is queued in the socket: a busy machine is late.
                if not goes_on():
                    break
                continue
            stamp = next(data for level, kind, data in extra if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS)
            seconds_since, nanoseconds = struct.unpack("qq", stamp)
            # The length on the wire is that of the IP packet and of its Ethernet header.
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


def poll(path, interval_s, seconds):
    """Logs the output of `ss`, preceded by the time of each call."""
    goes_on = until_told(seconds)
    with open(path, "w", encoding="utf-8") as out:
        print("ready", flush=True)
        while goes_on():
            now, called = time.monotonic(), time.time()
            found = subprocess.run(["ss", "-tinH", "dst", "10.0.2.2"], stdout=subprocess.PIPE, text=True, check=True)
            out.write(f"{called:.6f}\n{found.stdout}")
            time.sleep(max(0.0, now + interval_s - time.monotonic()))


def stall(process, rng, seconds, least_s=0.3):
    """Stops and resumes a program at random times, with pauses of at least `least_s`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None:
        time.sleep(rng.uniform(least_s, 3.0))
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.03 * 20 ** rng.random())
        process.send_signal(signal.SIGCONT)


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
        """Delays packets to the sender; returns whether the kernel supports it."""
        words = ["tc", "-n", self.router, "qdisc", "add", "dev", "toa", "root", "netem", "delay", f"{delay_ms}ms", "limit", "10000"]
        return subprocess.run(words, stderr=subprocess.DEVNULL, check=False).returncode == 0

    def lose(self, part):
        """Drops this fraction of the packets to the receiver."""
        run("ip", "netns", "exec", self.router, "nft", "add table ip lose; add chain ip lose passing { type filter hook forward priority 0; }; "
            f"add rule ip lose passing ip daddr 10.0.2.2 numgen random mod 1000000 < {round(part * 1e6)} drop")

    def thin(self, of):
        """Passes one of `of` pure ACKs; the length excludes those with SACK blocks."""
        run("ip", "netns", "exec", self.router, "nft", "add table ip thin; add chain ip thin passing { type filter hook forward priority 0; }; "
            f"add rule ip thin passing ip saddr 10.0.2.2 ip length 52 numgen inc mod {of} != 0 drop")

    def remove(self):
        for namespace in (self.sender, self.router, self.receiver):
            subprocess.run(["ip", "netns", "delete", namespace], check=False)


def start(namespace, *words, ready=True):
    command = ["ip", "netns", "exec", namespace, sys.executable, __file__, "--role", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    if ready and process.stdout.readline() != "ready\n":
        raise RuntimeError(f"{words[0]} did not start")
    return process


def one(rng, number, given):
    seed, folder, seconds = given.seed, given.out, given.seconds
    kind, control = rng.choice(given.kinds), rng.choice(given.controls)
    rate_bps = int(4e6 * 5 ** rng.random())
    delay_ms = int(10 * 8 ** rng.random())
    queue_bytes = max(20_000, int(rate_bps / 8 * delay_ms / 1000 * rng.uniform(0.5, 2.0)))
    part = rng.uniform(0.2, 0.7)
    count = rng.randint(2, 4) if kind == "several" else 1
    buffer_bytes = rng.choice([8, 16, 32]) << 10
    if kind in ("device", "application", "pacing", "receiver"):
        queue_bytes = 4_000_000
    more = random.Random(f"{seed} {number}")
    loss, interval_s, of = 1e-4 * 100 ** more.random(), 0.02 * 25 ** more.random(), more.randint(2, 8)
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
        if given.loss:
            net.lose(loss)
        if given.thin:
            net.thin(of)
        for namespace, interface, side in ((net.sender, "tor", "snd"), (net.receiver, "tor", "rcv")):
            running.append(start(namespace, "capture", interface, folder / f"{name}.{side}.pcap", seconds + LATE_SECONDS))
        receiver_bytes = buffer_bytes if kind == "receiver" else 0
        if given.poll:
            log = folder / f"{name}_{round(interval_s * 1000)}.ss.txt"
            running.append(start(net.sender, "poll", log, interval_s, seconds + LATE_SECONDS))
        running.append(start(net.receiver, "receive", count, receiver_bytes, seconds + 0.5))
        running.append(start(net.sender, "send", control, count, below_bytes_s if kind == "pacing" else 0,
                             below_bytes_s if kind == "application" else 0, seconds, ready=False))
        stalls = [threading.Thread(target=stall, args=(process, random.Random(more.random()), seconds)) for process in running[-2:]]
        for thread in stalls if given.stalls else []:
            thread.start()
        for thread in stalls if given.stalls else []:
            thread.join()
        for process in running[-2:]:
            process.wait(timeout=seconds + LATE_SECONDS)
        for process in running[:-2]:
            process.terminate()
            process.wait(timeout=LATE_SECONDS)
        said = f", {100 * loss:.2f} % of the packets lost" if given.loss else ""
        said += f", one acknowledgement of {of}" if given.thin else ""
        print(f"{name}: {rate_bps / 1e6:.1f} Mbit/s, {delay_ms if has_delay else 0} ms, queue of {queue_bytes} B{said}", flush=True)
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
        net.remove()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, required=True, help="seed of the random transfers")
    options.add_argument("--runs", type=int, default=24, help="captured transfers (24)")
    options.add_argument("--seconds", type=float, default=15.0, help="length of each transfer (15)")
    options.add_argument("--out", type=pathlib.Path, required=True, help="folder for the captures")
    options.add_argument("--kinds", type=lambda text: text.split(","), default=KINDS, help="only these, comma-separated")
    options.add_argument("--controls", type=lambda text: text.split(","), default=CONTROLS, help="only these, comma-separated")
    options.add_argument("--loss", action="store_true", help="with packets lost at random")
    options.add_argument("--thin", action="store_true", help="with acknowledgements that are thinned on the way")
    options.add_argument("--stalls", action="store_true", help="with programs that are stopped now and then")
    options.add_argument("--poll", action="store_true", help="with logs of ss")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(given.seed)
    for number in range(given.runs):
        one(rng, number, given)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--role"]:
        role, *words = sys.argv[2:]
        if role == "capture":
            capture(words[0], words[1], float(words[2]))
        elif role == "poll":
            poll(words[0], float(words[1]), float(words[2]))
        elif role == "receive":
            receive(int(words[0]), int(words[1]), float(words[2]))
        else:
            send(words[0], *map(int, words[1:4]), float(words[4]))
    else:
        main()
