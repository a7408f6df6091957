#!/usr/bin/env python3
"""Prints memory and time of `yuzuri-identify --all --json` for a capture of very many flows.

    scripts/many-flows.py [--identify PROGRAM] [--flows 1000000] [--segments 1,3,5]

The flows are open in groups of a hundred thousand, the number that a capture's reader keeps open. A
flow of one segment consists of data from its middle, a flow of three of the handshake; further
segments are alternately data and its acknowledgement. Needs 450 MB of TMPDIR for a million flows of
three segments.
"""
import argparse
import os
import pathlib
import struct
import subprocess
import tempfile
import time

GROUP = 100_000
SYN, ACK = 2, 16
NS, STEP_NS = 10**9, 1500
SYN_OPTIONS = b"\x02\x04\x05\xb4\x01\x03\x03\x07\x04\x02\x01\x01"
DATA_BYTES = 1448


def packet(flow, step, now_ns):
    """A packet of a download: SYN, SYN-ACK, ACK, then alternately data and acknowledgement."""
    ends = [(bytes([10, 1, flow // 60000, 1]), 1024 + flow % 60000), (bytes([10, 2, 0, 1]), 80)]
    stamps = b"\x01\x01\x08\x0a" + struct.pack(">II", now_ns // 10**6 & 0xFFFFFFFF, (now_ns // 10**6 - 30) & 0xFFFFFFFF)
    turn, down = (step - 3) // 2, step % 2 == 1
    bytes_, flags, options = 0, ACK, stamps
    if step < 2:
        flags, options = (SYN | ACK if down else SYN), SYN_OPTIONS + stamps
        seq, ack = 0, 1 if down else 0
    elif down:
        seq, ack, bytes_ = 1 + turn * DATA_BYTES, 1, DATA_BYTES
    else:
        seq, ack = 1, 1 + (turn + 1) * DATA_BYTES
    (source, source_port), (sink, sink_port) = reversed(ends) if down else ends
    header = 20 + len(options)
    tcp = struct.pack(">HHIIBBHHH", source_port, sink_port, seq, ack, header // 4 << 4, flags, 500, 0, 0) + options
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + header + bytes_, step * 7 + down, 0, 64, 6, 0, source, sink)
    frame = bytes(12) + b"\x08\x00" + ip + tcp
    return struct.pack("<IIII", now_ns // NS, now_ns % NS, len(frame), len(frame) + bytes_) + frame


def write(path, flows, segments):
    first = 3 if segments == 1 else 0
    now_ns = 10**18
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 110, 1))
        for begin in range(0, flows, GROUP):
            for step in range(first, first + segments):
                group = bytearray()
                for flow in range(begin, min(flows, begin + GROUP)):
                    group += packet(flow, step, now_ns)
                    now_ns += STEP_NS
                out.write(group)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--identify", default="target/release/yuzuri-identify", help="the program (target/release/yuzuri-identify)")
    options.add_argument("--flows", type=int, default=1_000_000, help="how many (1000000)")
    options.add_argument("--segments", default="1,3,5", help="segments of each flow, comma-separated (1,3,5)")
    given = options.parse_args()
    for segments in map(int, given.segments.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "flows.pcap")
            write(path, given.flows, segments)
            began = time.monotonic()
            program = subprocess.Popen([given.identify, "--all", "--json", path], stdout=subprocess.DEVNULL)
            _, status, used = os.wait4(program.pid, 0)
            # Exit code 3: flows were analysed, but none was identified.
            if os.waitstatus_to_exitcode(status) not in (0, 3):
                raise SystemExit(f"{given.identify} failed on {given.flows} flows of {segments} segments")
            print(f"{given.flows} flows of {segments} segments: {used.ru_maxrss / 1024:.0f} MB, {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
