#!/usr/bin/env python3
"""Writes copies of captures as another user would have made them, to be judged by scripts/wild-figures.py:

    scripts/wild-changed.py CHANGE FOLDER INTO

    late       the first 15 s are missing, the handshake with them
    early      the first 10 s only
    missed=P   the part P of the packets is missing, drawn by a lot that follows from the file's name
    untimed    without TCP timestamps

Reads pcap and, with Wireshark's editcap, pcapng, also packed by xz; writes pcap. What is not changed stays bit by bit.
"""
import lzma
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

NANOSECONDS, MICROSECONDS = 0xA1B23C4D, 0xA1B2C3D4
ETHERNET = 1
LATE_NS, EARLY_NS = 15 * 10**9, 10 * 10**9
END, NOTHING, TIMESTAMPS = 0, 1, 8


def read(path):
    """The file's header, and of each packet its time in ns, its header and its bytes."""
    raw = lzma.open(path).read() if path.suffix == ".xz" else path.read_bytes()
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


def untimed(frame):
    """TCP's timestamps of an IPv4 packet in Ethernet become options that say nothing."""
    if frame[12:14] != b"\x08\x00":
        return frame
    frame = bytearray(frame)
    tcp = 14 + (frame[14] & 15) * 4
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


def changed(change, name, header, packets):
    begin_ns = packets[0][0] if packets else 0
    if change == "late":
        return [packet for packet in packets if packet[0] >= begin_ns + LATE_NS]
    if change == "early":
        return [packet for packet in packets if packet[0] < begin_ns + EARLY_NS]
    if change.startswith("missed="):
        part, lot = float(change.removeprefix("missed=")), random.Random(name + change)
        return [packet for packet in packets if lot.random() >= part]
    if change == "untimed":
        if struct.unpack_from("<I", header, 20)[0] != ETHERNET:
            raise SystemExit(f"{name}: not of Ethernet")
        return [(at_ns, head, untimed(frame)) for at_ns, head, frame in packets]
    raise SystemExit(f"{change}: late, early, missed=PART or untimed")


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    change, folder, into = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    into.mkdir(parents=True, exist_ok=True)
    for path in sorted(path for path in folder.iterdir() if ".pcap" in path.name):
        name = path.name.removesuffix(".xz")
        header, packets = read(path)
        with open(into / name, "wb") as out:
            out.write(header)
            for _, head, frame in changed(change, name, header, packets):
                out.write(head + frame)


if __name__ == "__main__":
    main()
