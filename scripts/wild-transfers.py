#!/usr/bin/env python3
"""Makes captures of randomly drawn transfers, of more kinds than scripts/wild-captures.py, over a
path that is a program: it delays, queues, drops, marks and polices in both directions, on any kernel.
Hosts are network namespaces with this machine's TCP. Needs root and dumpcap (Wireshark).

    scripts/wild-transfers.py --seed 7 --runs 24 --out FOLDER [--kinds window,loss,...] [--jobs 2]

FOLDER/KIND_SEED-NUMBER.snd.pcap, .rcv.pcap and .mid.pcap (halfway, as IP packets) are a transfer's
captures. KIND_SEED-NUMBER.json has what was drawn, with the control of each flow by its ports.
scripts/wild-judge.py evaluates them. Kinds that the window limits:

    window        a bulk transfer over a queue of 0.3 to 3 times the bandwidth-delay product
    loss          the same with one packet in 100 to 3,000 lost at random
    police        a token bucket without a queue
    ecn           the queue marks instead of dropping
    several       two to four flows with one control;  mixed: with different controls
    drops         the sender's own TBF or HTB has a short queue
    sides         data in both directions at once

and kinds with another limit:

    steady        the application writes at a rate;  bursts: a larger amount each 0.1 to 2 s
    chunks        as for video, 1 to 4 s of data at once;  requests: each answer after the next request
    pacing        SO_MAX_PACING_RATE;  device: the sender's own TBF or HTB with a long queue
    receiver      a small receive buffer;  reader: a receiver that reads at a rate
    buffer        a small send buffer
    short         4 to 400 kB;  changes: a bulk transfer and an application's rate, alternating each 4 s

Each transfer also draws IPv4 or IPv6, the MTU (1500, 9000 or 1280), which end opens the connection,
segmentation offload (TSO), stalls, thinned acknowledgements, reordering, and the capture's snaplen.
"""
import argparse
import concurrent.futures
import fcntl
import heapq
import importlib
import json
import os
import pathlib
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
wild_captures = importlib.import_module("wild-captures")

WINDOW = ["window", "loss", "police", "ecn", "several", "mixed", "drops", "sides"]
OTHER = ["steady", "bursts", "chunks", "requests", "pacing", "device", "receiver", "reader", "buffer", "short", "changes"]
PORT = 5201
SO_MAX_PACING_RATE = 47
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
CLONE_NEWNET = 0x40000000
# Allowance for a busy machine to start programs, seconds.
LATE_SECONDS = 30


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


class Way:
    """One direction of the path."""

    def __init__(self, drawn, rng):
        self.drawn, self.rng, self.free_at, self.tokens, self.filled_at, self.acks = drawn, rng, 0.0, 0.0, 0.0, 0

    def departs(self, now, packet):
        """The time at which the packet leaves the queue (None: dropped), and the packet, possibly
        CE-marked."""
        drawn, length = self.drawn, len(packet)
        if drawn.get("thin") and is_bare(packet):
            self.acks += 1
            # Never drop ACKs of the handshake.
            if self.acks > 3 and self.acks % drawn["thin"]:
                return None, packet
        if self.rng.random() < drawn.get("loss", 0.0):
            return None, packet
        rate = drawn.get("rate_bps")
        if not rate:
            return now, packet
        if drawn.get("burst_bytes"):
            self.tokens = min(drawn["burst_bytes"], self.tokens + (now - self.filled_at) * rate / 8)
            self.filled_at = now
            if self.tokens < length:
                return None, packet
            self.tokens -= length
            return now, packet
        waits = max(0.0, self.free_at - now)
        if waits * rate / 8 + length > drawn["queue_bytes"]:
            return None, packet
        if drawn.get("mark_s") and waits > drawn["mark_s"]:
            packet = marked(packet)
        self.free_at = max(now, self.free_at) + length * 8 / rate
        return self.free_at, packet


def is_bare(packet):
    """Whether this is a pure ACK without SACK blocks."""
    if packet[0] >> 4 == 4:
        return packet[9] == 6 and len(packet) == 20 + (packet[32] >> 4) * 4 <= 52 and packet[33] == 0x10
    return packet[6] == 6 and len(packet) == 40 + (packet[52] >> 4) * 4 <= 72 and packet[53] == 0x10


def marked(packet):
    """Sets CE on an ECN-capable packet."""
    packet = bytearray(packet)
    if packet[0] >> 4 == 6:
        if packet[1] >> 4 & 3:
            packet[1] |= 0x30
    elif packet[1] & 3 and packet[1] & 3 != 3:
        total = struct.unpack_from(">H", packet, 10)[0] + (packet[1] & 3)
        packet[1] |= 3
        total -= 3
        struct.pack_into(">H", packet, 10, (total + (total >> 16)) % 65535)
    return bytes(packet)


def tun(namespace):
    """Opens a TUN device in another namespace."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net", "rb") as own, open(f"/run/netns/{namespace}", "rb") as other:
        if libc.setns(other.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"entering {namespace}")
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", b"path", IFF_TUN | IFF_NO_PI))
        libc.setns(own.fileno(), CLONE_NEWNET)
    return fd


def path(drawn, sides, into):
    """Forwards packets between both ends until SIGTERM."""
    os.nice(-20)
    fds = [tun(side) for side in sides]
    rng = random.Random(drawn["seed"])
    ways = [Way(drawn["there"], rng), Way(drawn["back"], rng)]
    due, number, told = [], 0, []
    signal.signal(signal.SIGTERM, lambda *_: told.append(True))
    real = time.time() - time.monotonic()
    out = open(into, "wb")
    out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 101))
    print("ready", flush=True)
    while not told:
        wait = max(0.0, due[0][0] - time.monotonic()) if due else 0.2
        try:
            able, _, _ = select.select(fds, [], [], min(wait, 0.2))
        except InterruptedError:
            continue
        for fd in able:
            side = fds.index(fd)
            way = ways[side]
            for _ in range(64):
                try:
                    packet = os.read(fd, 65536)
                except BlockingIOError:
                    break
                if packet[0] >> 4 == 6 and packet[6] == 58:
                    continue
                now = time.monotonic()
                leaves, packet = way.departs(now, packet)
                if leaves is None:
                    continue
                half = way.drawn["delay_s"] / 2
                over = way.drawn["overtakes_s"] if rng.random() < way.drawn.get("overtakes", 0.0) else 0.0
                heapq.heappush(due, (leaves + half, number, None, packet))
                heapq.heappush(due, (leaves + 2 * half + over, number + 1, fds[1 - side], packet))
                number += 2
        now = time.monotonic()
        while due and due[0][0] <= now:
            at, _, fd, packet = heapq.heappop(due)
            if fd is None:
                at_ns = int((at + real) * 1e9)
                kept = packet[:drawn["snaplen"]]
                out.write(struct.pack("<IIII", at_ns // 10**9, at_ns % 10**9, len(kept), len(packet)) + kept)
                continue
            try:
                os.write(fd, packet)
            except OSError:
                pass
    out.close()


def sockets(drawn, here):
    """Connects the flows; returns their sockets in order."""
    family = socket.AF_INET6 if drawn["ipv6"] else socket.AF_INET
    is_sender = here == "a"
    calls = is_sender != drawn["called"]

    def made(flow):
        made = socket.socket(family)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_sender or drawn["kind"] == "sides":
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, flow["control"].encode())
        if is_sender:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if drawn.get("send_buffer"):
                made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, drawn["send_buffer"])
            if drawn.get("pacing_bytes_s"):
                made.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, drawn["pacing_bytes_s"])
        elif drawn.get("receive_buffer"):
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, drawn["receive_buffer"])
        return made

    found = []
    listeners = []
    if not calls:
        for place, flow in enumerate(drawn["flows"]):
            listener = made(flow)
            listener.bind(("::" if drawn["ipv6"] else "0.0.0.0", PORT + place))
            listener.listen(1)
            listeners.append(listener)
        print("ready", flush=True)
        found = [listener.accept()[0] for listener in listeners]
    else:
        address = ("fd00:2::2" if is_sender else "fd00:1::2") if drawn["ipv6"] else ("10.0.2.2" if is_sender else "10.0.1.2")
        for place, flow in enumerate(drawn["flows"]):
            flow_socket = made(flow)
            flow_socket.connect((address, PORT + place))
            found.append(flow_socket)
            if drawn["flows"][place].get("later_s"):
                time.sleep(drawn["flows"][place]["later_s"])
    for flow in found:
        flow.setblocking(False)
    return found


def pour(flow, chunk):
    try:
        return flow.send(chunk)
    except (BlockingIOError, ConnectionError):
        return 0


def drain(flow, most):
    try:
        return len(flow.recv(most))
    except (BlockingIOError, ConnectionError):
        return 0


def end(drawn, here):
    """Writes or reads as the kind requires."""
    seconds, kind, chunk = drawn["seconds"], drawn["kind"], bytes(64 << 10)
    flows = sockets(drawn, here)
    ports = [[flow.getsockname()[1], flow.getpeername()[1]] for flow in flows]
    is_sender = here == "a"
    began = time.monotonic()
    written, owed, asked, was_read, answered = 0, 0, 0, 0, 0
    next_at = 0.0
    while (now := time.monotonic() - began) < seconds + (0.0 if is_sender else 0.5):
        if is_sender or kind == "sides":
            if kind in ("steady", "changes", "bursts", "chunks", "requests", "short"):
                flow = flows[0]
                if kind == "changes":
                    owed = written + (len(chunk) if int(now / 4) % 2 == drawn["first"] else max(0, int((now - next_at) * drawn["write_bytes_s"])))
                    if owed > written:
                        next_at = now
                elif kind == "steady":
                    owed = int(now * drawn["write_bytes_s"])
                elif kind in ("bursts", "chunks"):
                    owed = int(now / drawn["every_s"] + 1) * drawn["burst_write_bytes"]
                elif kind == "requests":
                    asked += drain(flow, 1 << 16)
                    owed = (asked // 100) * drawn["burst_write_bytes"]
                else:
                    owed = drawn["burst_write_bytes"]
                while owed > written:
                    sent = pour(flow, chunk[:min(len(chunk), owed - written)])
                    written += sent
                    if not sent or kind == "changes":
                        break
            else:
                for flow in flows:
                    while pour(flow, chunk[:drawn.get("write_bytes", len(chunk))]):
                        if drawn.get("write_bytes"):
                            continue
                        break
            if kind == "sides":
                for flow in flows:
                    drain(flow, 1 << 20)
        else:
            for flow in flows:
                most = 1 << 20
                if kind == "reader":
                    most = max(0, int(now * drawn["read_bytes_s"]) - was_read)
                while most > 0 and (got := drain(flow, most)):
                    was_read += got
                    if kind == "reader":
                        most -= got
                if kind == "requests" and was_read >= answered * drawn["burst_write_bytes"] and now >= next_at:
                    if pour(flow, bytes(100)):
                        answered += 1
                        next_at = now + drawn["every_s"]
        if is_sender and kind == "steady":
            time.sleep(drawn["every_s"])
        elif is_sender and kind in ("buffer", "window", "loss"):
            # Continue as soon as a flow is writable.
            select.select([], flows, [], 0.05)
        else:
            time.sleep(0.001)
    if is_sender:
        print(json.dumps(ports), flush=True)


def draw(rng, given, number):
    kind = rng.choice(given.kinds)
    log = lambda low, high: low * (high / low) ** rng.random()
    rate_bps, rtt_s = int(log(2e6, given.fastest)), log(0.005, 0.12)
    bdp = rate_bps / 8 * rtt_s
    controls = given.controls
    flows = [{"control": rng.choice(controls)}]
    there = {"rate_bps": rate_bps, "delay_s": rtt_s / 2, "queue_bytes": int(max(15_000, bdp * log(0.3, 3)))}
    back = {"delay_s": rtt_s / 2}
    part = rng.uniform(0.15, 0.7)
    below = int(rate_bps / 8 * part)
    drawn = {"kind": kind, "seconds": given.seconds, "seed": rng.getrandbits(32), "flows": flows, "there": there, "back": back}
    if kind == "loss":
        there["loss"] = 1 / log(100, 3000)
        there["queue_bytes"] = 4_000_000
    elif kind == "police":
        there["burst_bytes"] = int(max(20_000, bdp * log(0.3, 2)))
    elif kind == "ecn":
        there["mark_s"] = there["queue_bytes"] / 2 / (rate_bps / 8)
    elif kind in ("several", "mixed"):
        flows.extend({"control": rng.choice(controls) if kind == "mixed" else flows[0]["control"]} for _ in range(rng.randint(1, 3)))
        there["queue_bytes"] = max(30_000, there["queue_bytes"])
        for flow in flows[:-1]:
            flow["later_s"] = rng.choice([0, 0, 0.5, 2])
    elif kind in ("drops", "device"):
        drawn["device"] = {"how": rng.choice(["tbf", "htb"]), "rate_bps": rate_bps, "limit_bytes": 4_000_000 if kind == "device" else there["queue_bytes"]}
        there["rate_bps"], there["queue_bytes"] = rate_bps * 5, 4_000_000
    elif kind not in ("window", "sides", "short", "changes"):
        there["queue_bytes"] = 4_000_000
    if kind in ("steady", "changes"):
        drawn |= {"write_bytes_s": below, "every_s": log(0.002, 0.05), "first": rng.randint(0, 1)}
    elif kind == "bursts":
        drawn["every_s"] = log(0.1, 2)
        drawn["burst_write_bytes"] = int(below * drawn["every_s"])
    elif kind == "chunks":
        drawn["every_s"] = rng.uniform(1, 4)
        drawn["burst_write_bytes"] = int(below * drawn["every_s"])
    elif kind == "requests":
        drawn |= {"every_s": rng.choice([0.0, log(0.01, 0.5)]), "burst_write_bytes": int(log(500, 100_000))}
    elif kind == "pacing":
        drawn["pacing_bytes_s"] = below
    elif kind == "receiver":
        drawn["receive_buffer"] = int(log(3_000, max(4_000, min(bdp * part, 200_000))))
    elif kind == "reader":
        drawn |= {"receive_buffer": int(log(16_000, 200_000)), "read_bytes_s": below}
    elif kind == "buffer":
        drawn["send_buffer"] = int(log(2_304, max(5_000, min(bdp * part, 200_000))))
        drawn["write_bytes"] = int(log(1_000, drawn["send_buffer"]))
    elif kind == "short":
        drawn["burst_write_bytes"] = int(log(4_000, 400_000))
        drawn["seconds"] = 3.0
    drawn["ipv6"], drawn["called"] = rng.random() < 0.25, rng.random() < 0.4
    drawn["mtu"] = rng.choice([1500] * 8 + [9000, 1280])
    drawn["offload"] = rng.random() < 0.7
    drawn["snaplen"] = rng.choice([96, 110, 128, 256])
    if rng.random() < 0.15:
        drawn["stalls"] = True
    if rng.random() < 0.1:
        back["thin"] = rng.randint(2, 8)
    if rng.random() < 0.1:
        there["overtakes"], there["overtakes_s"] = log(1e-4, 1e-2), log(1e-4, 5e-3)
    return drawn


def start(namespace, role, *words, ready=True):
    enter = ["ip", "netns", "exec", namespace] if namespace else []
    process = subprocess.Popen([*enter, sys.executable, __file__, "--role", role, *words], stdout=subprocess.PIPE, text=True)
    if ready and process.stdout.readline() != "ready\n":
        raise RuntimeError(f"{role} did not start")
    return process


def dump(namespace, into, snaplen):
    words = ["ip", "netns", "exec", namespace, "dumpcap", "-q", "-P", "-i", "wire", "-s", str(snaplen), "-B", "32", "-w", into]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.startswith("File:"):
            break
    threading.Thread(target=process.stderr.read, daemon=True).start()
    return process


def one(drawn, name, out):
    ends = {end: f"yzw{os.getpid()}{threading.get_ident() % 9973}{end}" for end in "arsb"}
    running = []
    try:
        for namespace in ends.values():
            run("ip", "netns", "add", namespace)
            run("ip", "netns", "exec", namespace, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1",
                "net.ipv6.conf.default.accept_dad=0", f"net.ipv4.tcp_ecn={1 if drawn['kind'] == 'ecn' else 2}", "net.ipv4.tcp_no_metrics_save=1")
        mtu = str(drawn["mtu"])
        run(sys.executable, __file__, "--role", "tuns", ends["r"], ends["s"])
        for host, router, number in (("a", "r", 1), ("b", "s", 2)):
            host, router = ends[host], ends[router]
            run("ip", "-n", host, "link", "add", "wire", "mtu", mtu, "type", "veth", "peer", "name", "wire", "mtu", mtu, "netns", router)
            for namespace, place in ((host, 2), (router, 1)):
                run("ip", "-n", namespace, "address", "add", f"10.0.{number}.{place}/24", "dev", "wire")
                run("ip", "-n", namespace, "address", "add", f"fd00:{number}::{place}/64", "dev", "wire", "nodad")
                run("ip", "-n", namespace, "link", "set", "wire", "up")
            run("ip", "-n", host, "route", "add", "default", "via", f"10.0.{number}.1")
            run("ip", "-n", host, "route", "add", "default", "via", f"fd00:{number}::1")
            run("ip", "-n", router, "link", "set", "path", "mtu", mtu, "up")
            run("ip", "-n", router, "route", "add", f"10.0.{3 - number}.0/24", "dev", "path")
            run("ip", "-n", router, "route", "add", f"fd00:{3 - number}::/64", "dev", "path")
            if not drawn["offload"]:
                run("ip", "netns", "exec", host, "ethtool", "-K", "wire", "tso", "off", "gso", "off", "gro", "off")
            else:
                run("ip", "netns", "exec", host, "ethtool", "-K", "wire", "gro", "on")
        if "device" in drawn:
            device = drawn["device"]
            rate, limit = f"{device['rate_bps']}bit", str(device["limit_bytes"])
            tc = ["tc", "-n", ends["a"]]
            if device["how"] == "tbf":
                run(*tc, "qdisc", "add", "dev", "wire", "root", "tbf", "rate", rate, "burst", str(4 * drawn["mtu"]), "limit", limit)
            else:
                run(*tc, "qdisc", "add", "dev", "wire", "root", "handle", "1:", "htb", "default", "1")
                run(*tc, "class", "add", "dev", "wire", "parent", "1:", "classid", "1:1", "htb", "rate", rate)
                run(*tc, "qdisc", "add", "dev", "wire", "parent", "1:1", "bfifo", "limit", limit)
        words = json.dumps(drawn)
        running.append(start(None, "path", words, ends["r"], ends["s"], f"{out}/{name}.mid.pcap"))
        for host, side in (("a", "snd"), ("b", "rcv")):
            running.append(dump(ends[host], f"{out}/{name}.{side}.pcap", drawn["snaplen"]))
        first, second = ("a", "b") if drawn["called"] else ("b", "a")
        called = start(ends[first], "end", words, first)
        calls = start(ends[second], "end", words, second, ready=False)
        programs = {first: called, second: calls}
        running += [called, calls]
        if drawn.get("stalls"):
            stalls = [threading.Thread(target=wild_captures.stall, args=(program, random.Random(f"{drawn['seed']}{end}"), drawn["seconds"], 0.5)) for end, program in programs.items()]
            for thread in stalls:
                thread.start()
            for thread in stalls:
                thread.join()
        for program in programs.values():
            program.wait(timeout=drawn["seconds"] + LATE_SECONDS)
        ports = json.loads(programs["a"].stdout.read())
        for process in running[:3]:
            process.terminate()
            process.wait(timeout=LATE_SECONDS)
        for flow, (source, to) in zip(drawn["flows"], ports):
            flow["from"], flow["to"] = source, to
        (out / f"{name}.json").write_text(json.dumps(drawn))
        print(f"{name}: {drawn}", flush=True)
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()
        for namespace in ends.values():
            subprocess.run(["ip", "netns", "delete", namespace], check=False, stderr=subprocess.DEVNULL)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, required=True, help="seed of the random transfers")
    options.add_argument("--runs", type=int, default=24, help="transfers (24)")
    options.add_argument("--seconds", type=float, default=15.0, help="length of each (15)")
    options.add_argument("--fastest", type=float, default=2e7, help="the fastest path, bit/s (2e7)")
    options.add_argument("--out", type=pathlib.Path, required=True, help="folder for the captures")
    options.add_argument("--kinds", type=lambda text: text.split(","), default=WINDOW + OTHER, help="only these, comma-separated")
    options.add_argument("--controls", type=lambda text: text.split(","), default=["reno", "cubic", "bbr"], help="only these, comma-separated")
    options.add_argument("--jobs", type=int, default=2, help="transfers at a time (2)")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        waits = []
        for number in range(given.runs):
            drawn = draw(random.Random(f"{given.seed} {number}"), given, number)
            waits.append(pool.submit(one, drawn, f"{drawn['kind']}_{given.seed}-{number}", given.out))
        for wait in waits:
            error = wait.exception()
            if error:
                print(f"not made: {error!r}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--role"]:
        role, *words = sys.argv[2:]
        if role == "tuns":
            for namespace in words:
                run("ip", "-n", namespace, "tuntap", "add", "dev", "path", "mode", "tun")
        elif role == "path":
            path(json.loads(words[0]), words[1:3], words[3])
        else:
            end(json.loads(words[0]), words[1])
    else:
        main()
