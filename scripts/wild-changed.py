#!/usr/bin/env python3
"""Writes copies of captures as they would look in other conditions, for scripts/wild-figures.py:

    scripts/wild-changed.py CHANGE FOLDER INTO

    none       unchanged
    late       without the first 15 s, including the handshake; late=S: without the first S seconds
    early      only the first 10 s; early=S: only the first S seconds
    oneway     only the direction that moved more data
    snaplen=N  N bytes of each packet
    middle     the second third of the capture's time
    missed=P   without a randomly drawn fraction P of the packets; the file's name is the seed
    twice      each packet twice, as from a mirror port that copies both directions: the copy 1 to 100 us later
    untimed    without TCP timestamps
    coarse     times by a clock of 1 ms
    sums       all checksums wrong, as with offload or after addresses were changed
    tunnel     in a tunnel, drawn with the file's name as seed: VXLAN, GENEVE, GTP-U, ERSPAN, GRE, IP in IP, or PPPoE in two VLANs
    received   as captured at the receiver: acknowledgements half of the minimum round-trip time earlier, and data shortly
               before its acknowledgement; transmissions that were lost are missing
    received,untimed    both

A capture at the receiver has only computed times: the sender's capture shows what arrived, and in
which order. FOLDER contains captures, or runs of the laboratory (`yuzuri-lab sweep`), of which the
captures at the sender are copied and named after their control. Reads pcap and, with Wireshark's
editcap, pcapng, also compressed by xz or (with the program zstd) by zstd; writes pcap. Everything
else stays identical bit by bit. scripts/wild-rows.py makes and evaluates all of these copies.
"""
import lzma
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import tomllib

NANOSECONDS, MICROSECONDS = 0xA1B23C4D, 0xA1B2C3D4
ETHERNET = 1
LATE_NS, EARLY_NS = 15 * 10**9, 10 * 10**9
END, NOTHING, SACK, TIMESTAMPS = 0, 1, 5, 8
SYN, FIN, RST = 2, 1, 4
COPY_NS = (1_000, 100_000)
# Time between the arrival of data at the receiver and the acknowledgement that it triggers.
BEFORE_ACK_NS = 20_000


def unpacked(path):
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dcq", path], stdout=subprocess.PIPE, check=True).stdout
    return lzma.open(path).read() if path.suffix == ".xz" else path.read_bytes()


def read(path):
    """Returns the file's header, and the time in ns, header and bytes of each packet."""
    raw = unpacked(path)
    if raw[:4] == b"\n\r\r\n":
        with tempfile.TemporaryDirectory() as folder:
            ng, plain = pathlib.Path(folder, "it.pcapng"), pathlib.Path(folder, "it.pcap")
            ng.write_bytes(raw)
            subprocess.run(["editcap", "-F", "nsecpcap", ng, plain], check=True)
            raw = plain.read_bytes()
    (magic,) = struct.unpack_from("<I", raw)
    if magic not in (NANOSECONDS, MICROSECONDS):
        raise SystemExit(f"{path}: neither pcap in this machine's byte order nor pcapng")
    unit_ns = 1 if magic == NANOSECONDS else 1000
    packets, place = [], 24
    while place + 16 <= len(raw):
        seconds, part, captured, _ = struct.unpack_from("<IIII", raw, place)
        end = place + 16 + captured
        packets.append((seconds * 10**9 + part * unit_ns, raw[place:place + 16], raw[place + 16:end]))
        place = end
    return raw[:24], packets


def tcp_of(frame):
    """Returns the place of the TCP header, both addresses, and the payload's length; None: no TCP
    over IPv4, or over IPv6 without extension headers."""
    if frame[12:14] == b"\x08\x00" and frame[23] == 6:
        tcp, addresses = 14 + (frame[14] & 15) * 4, (frame[26:30], frame[30:34])
        end = 14 + int.from_bytes(frame[16:18], "big")
    elif frame[12:14] == b"\x86\xdd" and frame[20] == 6:
        tcp, addresses = 54, (frame[22:38], frame[38:54])
        end = tcp + int.from_bytes(frame[18:20], "big")
    else:
        return None
    return tcp, *addresses, end - tcp - (frame[tcp + 12] >> 4) * 4


def untimed(frame):
    """Replaces the TCP timestamps of a packet with NOP options."""
    found = tcp_of(frame)
    if found is None:
        return frame
    frame, tcp = bytearray(frame), found[0]
    place, end = tcp + 20, min(tcp + (frame[tcp + 12] >> 4) * 4, len(frame))
    while place < end and frame[place] != END:
        if frame[place] == NOTHING:
            place += 1
            continue
        length = max(frame[place + 1], 2)
        if frame[place] == TIMESTAMPS:
            frame[place:place + length] = bytes([NOTHING]) * length
        place += length
    return bytes(frame)


def options(frame, tcp):
    """Yields kind and bytes of each TCP option."""
    place, end = tcp + 20, min(tcp + (frame[tcp + 12] >> 4) * 4, len(frame))
    while place < end and frame[place] != END:
        length = 1 if frame[place] == NOTHING else max(frame[place + 1], 2)
        yield frame[place], frame[place + 2:place + length]
        place += length


class Sent:
    """One transmission of a segment."""

    def __init__(self, at_ns, begin, end, packet, tcp):
        self.at_ns, self.begin, self.end, self.packet, self.tcp = at_ns, begin, end, packet, tcp
        self.arrived_ns = None

    def as_packet(self, at_ns, base):
        """The packet of this segment alone, although the captured packet may contain several
        segments."""
        _, head, frame = self.packet
        frame = bytearray(frame)
        payload = self.end - self.begin
        length = (frame[self.tcp + 12] >> 4) * 4 + payload
        if frame[12:14] == b"\x08\x00":
            struct.pack_into(">H", frame, 16, self.tcp - 14 + length)
        else:
            struct.pack_into(">H", frame, 18, length)
        struct.pack_into(">I", frame, self.tcp + 4, (base + self.begin) % 2**32)
        return at_ns, head[:12] + struct.pack("<I", self.tcp + length), bytes(frame)


def received(name, packets):
    """Moves the capture point to the receiver, for the largest flow; its larger direction counts as
    data."""
    parsed, bytes_of, flows = [], {}, {}
    for packet in packets:
        frame = packet[2]
        found = tcp_of(frame)
        if found is None:
            continue
        tcp, source, destination, payload = found
        ends = frozenset([source + frame[tcp:tcp + 2], destination + frame[tcp + 2:tcp + 4]])
        flows[ends] = flows.get(ends, 0) + payload
        parsed.append((packet, tcp, source, payload, ends))
    if not flows:
        raise SystemExit(f"{name}: no TCP over Ethernet in it")
    largest = max(flows, key=flows.get)
    parsed = [segment[:4] for segment in parsed if segment[4] == largest]
    for _, _, source, payload in parsed:
        bytes_of[source] = bytes_of.get(source, 0) + payload
    sender = max(bytes_of, key=bytes_of.get)
    mss = max(payload for _, _, source, payload in parsed if source == sender)
    # Packets may contain several segments: the most frequent payload up to 1460 bytes is one
    # segment.
    sizes = {}
    for _, _, source, payload in parsed:
        if source == sender and 0 < payload <= 1460:
            sizes[payload] = sizes.get(payload, 0) + 1
    mss = max(sizes, key=sizes.get) if sizes else mss
    base, high, ack_high = None, 0, 0
    outstanding, sent, acks, opened_ns, least_ns = {}, [], [], None, None
    for packet, tcp, source, payload in parsed:
        at_ns, _, frame = packet
        flags = frame[tcp + 13]
        if source == sender:
            seq = int.from_bytes(frame[tcp + 4:tcp + 8], "big")
            if base is None:
                base = seq + (flags & SYN != 0)
            if flags & SYN:
                opened_ns = at_ns
            place = high + ((seq - base - high + 2**31) % 2**32 - 2**31)
            if payload == 0:
                acks.append((at_ns, packet, True))
            for begin in range(place, place + payload, mss):
                segment = Sent(at_ns, begin, min(begin + mss, place + payload), packet, tcp)
                sent.append(segment)
                outstanding.setdefault(begin, []).append(segment)
            high = max(high, place + payload)
            continue
        acks.append((at_ns, packet, False))
        if base is None:
            continue
        if flags & SYN and opened_ns is not None:
            least_ns = at_ns - opened_ns
        unwrap = lambda number: ack_high + ((number - base - ack_high + 2**31) % 2**32 - 2**31)
        ack = unwrap(int.from_bytes(frame[tcp + 8:tcp + 12], "big"))
        ranges = [(ack_high, ack)] if ack > ack_high else []
        for kind, data in options(frame, tcp):
            if kind == SACK:
                # A short snapshot length cuts the last blocks.
                blocks = struct.unpack(f">{len(data) // 8 * 2}I", data[:len(data) // 8 * 8])
                ranges += [(unwrap(left), unwrap(right)) for left, right in zip(blocks[::2], blocks[1::2])]
        for left, right in ranges:
            for begin in range(left, right, mss):
                segments = outstanding.pop(begin, None)
                if not segments:
                    continue
                # The last transmission that is old enough to have arrived; earlier ones were lost.
                fits = [segment for segment in segments if least_ns is None or at_ns - segment.at_ns >= 0.9 * least_ns]
                arrived = (fits or segments)[-1]
                if len(segments) == 1:
                    least_ns = min(least_ns or 2**62, at_ns - arrived.at_ns)
                arrived.arrived_ns = at_ns
        ack_high = max(ack_high, ack)
    way_ns = (least_ns or 0) // 2
    out = [(at_ns + (way_ns if ours else -way_ns), 1, packet) for at_ns, packet, ours in acks]
    out = [(at_ns, order, (at_ns, packet[1], packet[2])) for at_ns, order, packet in out]
    for segment in sent:
        if segment.arrived_ns is not None:
            at_ns = segment.arrived_ns - way_ns - BEFORE_ACK_NS
            out.append((at_ns, 0, segment.as_packet(at_ns, base)))
    out.sort(key=lambda packet: packet[0])
    return [packet for _, _, packet in out]


def outside(protocol, inside):
    """An IPv4 packet from one end of a tunnel to the other."""
    return struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(inside), 0, 0, 64, protocol, 0, bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2])) + inside


def udp(port, inside):
    return outside(17, struct.pack(">HHHH", 50_000, port, 8 + len(inside), 0) + inside)


# Encapsulation of an Ethernet frame, by tunnel.
TUNNELS = {
    "vxlan": lambda frame: frame[:14] + udp(4789, struct.pack(">II", 8 << 24, 42 << 8) + frame),
    "geneve": lambda frame: frame[:14] + udp(6081, struct.pack(">BBHI", 0, 0, 0x6558, 42 << 8) + frame),
    "gtp": lambda frame: frame[:14] + udp(2152, struct.pack(">BBHI", 0x30, 255, int.from_bytes(frame[16:18], "big"), 42) + frame[14:]),
    "erspan": lambda frame: frame[:14] + outside(47, struct.pack(">HHI", 0x1000, 0x88BE, 0) + struct.pack(">HHI", 0x1000 | 42, 1, 0) + frame),
    "gre": lambda frame: frame[:14] + outside(47, struct.pack(">HH", 0, 0x0800) + frame[14:]),
    "ipip": lambda frame: frame[:14] + outside(4, frame[14:]),
    "pppoe": lambda frame: frame[:12] + struct.pack(">HHHH", 0x88A8, 7, 0x8100, 9)
        + struct.pack(">HBBHHH", 0x8864, 0x11, 0, 42, 2 + int.from_bytes(frame[16:18], "big"), 0x21) + frame[14:],
}


def tunnelled(kind, head, frame):
    if frame[12:14] != b"\x08\x00":
        return head, frame
    out = TUNNELS[kind](frame)
    (on_wire,) = struct.unpack_from("<I", head, 12)
    return head[:8] + struct.pack("<II", len(out), on_wire + len(out) - len(frame)), out


def spoiled(frame):
    """Falsifies the TCP checksum."""
    if frame[12:14] != b"\x08\x00":
        return frame
    place = 14 + (frame[14] & 15) * 4 + 16
    return frame[:place] + bytes([frame[place] ^ 0x5A, frame[place + 1] ^ 0xA5]) + frame[place + 2:]


def at(time_ns, head, header):
    """The pcap header of a packet with another time."""
    unit_ns = 1 if struct.unpack_from("<I", header)[0] == NANOSECONDS else 1000
    return struct.pack("<II", time_ns // 10**9, time_ns % 10**9 // unit_ns) + head[8:]


def changed(change, name, header, packets):
    if change == "none":
        return packets
    if change == "received,untimed":
        return changed("untimed", name, header, changed("received", name, header, packets))
    if change == "received":
        return [(at_ns, at(at_ns, head, header), frame) for at_ns, head, frame in received(name, packets)]
    begin_ns = packets[0][0] if packets else 0
    if change.startswith("late"):
        from_ns = begin_ns + (int(float(change[5:]) * 1e9) if "=" in change else LATE_NS)
        return [packet for packet in packets if packet[0] >= from_ns]
    if change.startswith("early"):
        to_ns = begin_ns + (int(float(change[6:]) * 1e9) if "=" in change else EARLY_NS)
        return [packet for packet in packets if packet[0] < to_ns]
    if change == "middle":
        third_ns = (packets[-1][0] - begin_ns) // 3 if packets else 0
        return [packet for packet in packets if begin_ns + third_ns <= packet[0] < begin_ns + 2 * third_ns]
    if change.startswith("snaplen="):
        most = int(change.removeprefix("snaplen="))
        return [(at_ns, head[:8] + struct.pack("<I", min(most, len(frame))) + head[12:], frame[:most]) for at_ns, head, frame in packets]
    if change == "oneway":
        sums = {}
        for _, head, frame in packets:
            sums[frame[6:12]] = sums.get(frame[6:12], 0) + struct.unpack_from("<I", head, 12)[0]
        source = max(sums, key=sums.get) if sums else b""
        return [packet for packet in packets if packet[2][6:12] == source]
    if change.startswith("missed="):
        part, rng = float(change.removeprefix("missed=")), random.Random(name + change)
        return [packet for packet in packets if rng.random() >= part]
    if change == "twice":
        rng = random.Random(name + change)
        copies = [(at_ns + rng.randint(*COPY_NS), head, frame) for at_ns, head, frame in packets]
        return sorted(packets + [(at_ns, at(at_ns, head, header), frame) for at_ns, head, frame in copies], key=lambda packet: packet[0])
    if change == "untimed":
        if struct.unpack_from("<I", header, 20)[0] != ETHERNET:
            raise SystemExit(f"{name}: not of Ethernet")
        return [(at_ns, head, untimed(frame)) for at_ns, head, frame in packets]
    if change == "coarse":
        return [(at_ns, at(at_ns // 10**6 * 10**6, head, header), frame) for at_ns, head, frame in packets]
    if change == "sums":
        return [(at_ns, head, spoiled(frame)) for at_ns, head, frame in packets]
    if change == "tunnel":
        kind = random.Random(name + change).choice(sorted(TUNNELS))
        return [(at_ns, *tunnelled(kind, head, frame)) for at_ns, head, frame in packets]
    raise SystemExit(f"{change}: none of the changes that this script's --help lists")


def captures(folder):
    """Captures of a folder, or sender captures of its laboratory runs, with names that begin with
    the control."""
    runs = sorted(path.parent for path in folder.rglob("scenario.toml") if (path.parent / "run.json").exists())
    for run in runs:
        # Runs without a control use CUBIC with Apple's constants.
        control = tomllib.loads((run / "scenario.toml").read_text())["terminal"][0].get("control", "cubic_apple_old")
        place = "-".join(part.split(",")[-1] for part in run.relative_to(folder).parts)
        yield run / "sender.pcap.zst", f"{control}_{place}.snd.pcap"
    if not runs:
        for path in sorted(path for path in folder.iterdir() if ".pcap" in path.name):
            yield path, path.name.removesuffix(".xz").removesuffix(".zst")


def copy(change, path, name, into):
    header, packets = read(path)
    with open(into / name, "wb") as out:
        out.write(header)
        for _, head, frame in changed(change, name, header, packets):
            out.write(head + frame)


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    change, folder, into = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    into.mkdir(parents=True, exist_ok=True)
    for path, name in captures(folder):
        copy(change, path, name, into)


if __name__ == "__main__":
    main()
