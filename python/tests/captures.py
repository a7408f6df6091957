"""Captures of a simulated download, written in pure Python: the sender's algorithm is known, and
Yuzuri's code is not involved.

The model: a sender of full segments, a drop-tail bottleneck, and a receiver that acknowledges
each segment with SACK (RFC 2018). The capture point is the sender. Loss recovery follows RFC
6675.
"""

from __future__ import annotations

import gzip
import heapq
import random
import struct
from pathlib import Path

MSS = 1448
SENDER = ("192.0.2.1", 443)
RECEIVER = ("198.51.100.7", 50000)
DATA_ISN, ACK_ISN = 1_000_000, 77_000
START_NS = 1_700_000_000_000_000_000


class Reno:
    """Reno (RFC 5681)."""

    beta = 0.5

    def lost(self, cwnd: float, now: float) -> None:
        pass

    def grown(self, cwnd: float, now: float) -> float:
        return cwnd + 1 / cwnd


class Cubic:
    """CUBIC (RFC 9438) without the Reno-friendly region."""

    beta, c = 0.7, 0.4

    def lost(self, cwnd: float, now: float) -> None:
        self.most, self.since = cwnd, now
        self.k = (cwnd * (1 - self.beta) / self.c) ** (1 / 3)

    def grown(self, cwnd: float, now: float) -> float:
        target = self.c * (now - self.since - self.k) ** 3 + self.most
        return cwnd + max(0.0, min(target, 1.5 * cwnd) - cwnd) / cwnd


def download(cca: Reno | Cubic, *, seconds: float, rtt_s: float = 0.05, rate: float = 800.0, queue: int = 40) -> list[tuple]:
    """Returns packets for `packet`. `rate`: bottleneck rate, segments/s; `queue`: its length,
    segments."""
    rng = random.Random(1)
    packets: list[tuple] = []
    events: list[tuple] = [(0.0, 0, "start", ())]
    count = 1
    una = following = received = 0
    cwnd, ssthresh, recover = 10.0, float("inf"), -1
    sacked: set[int] = set()
    resent: set[int] = set()
    early: set[int] = set()
    free_at = 0.0

    def put(at: float, kind: str, what: tuple) -> None:
        nonlocal count
        heapq.heappush(events, (at, count, kind, what))
        count += 1

    def send(segment: int, now: float) -> float:
        nonlocal free_at
        # Packets of a burst leave one after the other.
        now = max(now, packets[-1][0] + 2e-6) if packets else now
        packets.append((now, True, segment, received, ()))
        # The queue always accepts retransmissions, so that no timeout occurs.
        if (free_at - now) * rate < queue or segment < following:
            free_at = max(free_at, now) + (1 + rng.uniform(-0.05, 0.05)) / rate
            put(free_at + rtt_s / 2, "data", (segment,))
        return now

    while events:
        now, _, kind, what = heapq.heappop(events)
        if kind == "data":
            early.add(what[0])
            while received in early:
                early.discard(received)
                received += 1
            put(now + rtt_s / 2, "ack", (received, blocks(early, what[0])))
            continue
        if kind == "ack":
            ack, sack = what
            packets.append((now, False, 0, ack, sack))
            newly = ack - una
            una = max(una, ack)
            for left, right in sack:
                sacked.update(range(left, right))
            sacked = {segment for segment in sacked if segment >= una}
            if una > recover:
                resent.clear()
                if len(sacked) >= 3:
                    cca.lost(cwnd, now)
                    recover = following - 1
                    cwnd = ssthresh = max(2.0, cwnd * cca.beta)
                elif newly > 0 and cwnd < ssthresh:
                    cwnd += newly
                elif newly > 0:
                    for _ in range(newly):
                        cwnd = cca.grown(cwnd, now)
        if now > seconds:
            continue
        gone = []
        if una <= recover:
            edge = sorted(sacked)[-3] if len(sacked) >= 3 else una
            gone = [segment for segment in range(una, edge) if segment not in sacked]
        flight = following - una - len(sacked) - sum(segment not in resent for segment in gone)
        for segment in gone:
            if flight < cwnd and segment not in resent:
                now = send(segment, now)
                resent.add(segment)
                flight += 1
        while flight < int(cwnd):
            now = send(following, now)
            following += 1
            flight += 1
    return sorted(packets)


def blocks(early: set[int], newest: int) -> tuple:
    """SACK blocks of the out-of-order segments: at most three, the one with the newest segment
    first."""
    runs: list[list[int]] = []
    for segment in sorted(early):
        if runs and runs[-1][1] == segment:
            runs[-1][1] += 1
        else:
            runs.append([segment, segment + 1])
    runs.sort(key=lambda run: not run[0] <= newest < run[1])
    return tuple((left, right) for left, right in runs[:3])


def packet(at: float, data: bool, segment: int, ack: int, sack: tuple, flags: int = 0x10) -> tuple[int, bytes, int]:
    """Time, captured bytes and length on the wire: IPv4 and TCP headers, without payload."""
    stamp = int(at * 1000) + 1000
    options = b"\x01\x01" + struct.pack(">BBII", 8, 10, stamp, 0 if flags & 2 else stamp)
    if flags & 2:
        options += struct.pack(">BBHBBBBBB", 2, 4, 1460, 3, 3, 7, 4, 2, 1)
    if sack:
        options += b"\x01\x01" + struct.pack(">BB", 5, 2 + 8 * len(sack))
        options += b"".join(struct.pack(">II", seq(left), seq(right)) for left, right in sack)
    options += b"\x01" * (-len(options) % 4)
    payload = MSS if data and not flags & 2 else 0
    (source, sport), (target, dport) = (SENDER, RECEIVER) if data else (RECEIVER, SENDER)
    numbers = (seq(segment), ACK_ISN + 1) if data else (ACK_ISN + 1, seq(ack))
    if flags & 2:
        numbers = (DATA_ISN, ACK_ISN + 1) if data else (ACK_ISN, 0)
    offset = (5 + len(options) // 4) << 4
    tcp = struct.pack(">HHIIBBHHH", sport, dport, *numbers, offset, flags, 32000, 0, 0) + options
    length = 20 + len(tcp) + payload
    ends = address(source) + address(target)
    header = struct.pack(">BBHHHBBH", 0x45, 0, length, 0, 0x4000, 64, 6, 0) + ends
    header = header[:10] + checksum(header) + header[12:]
    # The payload is zeros, which do not change the checksum.
    tcp = tcp[:16] + checksum(ends + struct.pack(">HH", 6, length - 20) + tcp) + tcp[18:]
    return START_NS + round(at * 1e9), header + tcp, length


def checksum(words: bytes) -> bytes:
    """The Internet checksum (RFC 1071)."""
    total = sum(struct.unpack(f">{len(words) // 2}H", words))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack(">H", total ^ 0xFFFF)


def seq(segment: int) -> int:
    return (DATA_ISN + 1 + segment * MSS) & 0xFFFFFFFF


def address(text: str) -> bytes:
    return bytes(map(int, text.split(".")))


def write(path: Path, packets: list[tuple], rtt_s: float = 0.05) -> Path:
    """Writes a nanosecond pcap file with raw IP, compressed if the name ends in .gz."""
    shaken = [packet(-rtt_s, False, 0, 0, (), 2), packet(-rtt_s + 1e-5, True, 0, 0, (), 0x12), packet(-1e-5, False, 0, 0, ())]
    with gzip.open(path, "wb", 1) if path.suffix == ".gz" else path.open("wb") as file:
        file.write(struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 96, 101))
        for at_ns, beta, length in shaken + [packet(*each) for each in packets]:
            file.write(struct.pack("<IIII", at_ns // 10**9, at_ns % 10**9, len(beta), length) + beta)
    return path
