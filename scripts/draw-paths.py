#!/usr/bin/env python3
"""Prints a laboratory scenario that runs each congestion control algorithm over random paths from
a seed, captured at both ends.

The distribution: rates of 1-100 Mbit/s and RTTs of 10-600 ms, log-uniform; queues of 0.3-3
bandwidth-delay products; random loss of 1e-5 to 1e-3 on half of the paths. Random paths cannot
favour a method. The processor is so fast that hardly any packet is late. This script generates
scenarios/identify/*.toml.
"""
import argparse
import random

CONTROLS = [
    "reno", "cubic", "bic", "htcp", "highspeed", "scalable", "hybla", "illinois", "vegas", "veno", "westwood", "yeah", "lp", "nv",
    "cdg", "dctcp", "bbr",
]
# Linux 5.6 counted ACKs in these: "tcp: fix stretch ACK bugs in ...".
FORMER = ["bic_5_6", "scalable_5_6", "veno_5_6", "yeah_5_6"]
PACKET_BYTES = 1500


def log_even(rng, low, high):
    return low * (high / low) ** rng.random()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, required=True, help="of the random settings")
    options.add_argument("--paths", type=int, default=8, help="how many (8)")
    options.add_argument("--former", action="store_true", help="the algorithms that counted ACKs before Linux 5.7, in that version")
    options.add_argument("--apple", action="store_true", help="CUBIC with Apple's constants instead of Linux's algorithms")
    given = options.parse_args()
    rng = random.Random(given.seed)
    apple = " --apple" if given.apple else " --former" if given.former else ""
    controls = FORMER if given.former else CONTROLS
    print(f"# Made by: scripts/draw-paths.py --seed {given.seed} --paths {given.paths}{apple}")
    who = "CUBIC with Apple's constants" if given.apple else "Every congestion control of Linux"
    if given.former:
        who = "The controls of Linux 5.6 that count ACKs"
    print(f'title = "{who} over random paths, captured at both ends"')
    print("duration_s = 70\nseed = %d\ncapture_bytes = 100\nprocessor_mips = 4000\n" % given.seed)
    print('[sysctl]\n"net.ipv4.tcp_wmem" = "4096 65536 67108864"\n"net.ipv4.tcp_rmem" = "4096 1048576 67108864"\n')
    print('[[terminal]]\nname = "sender"\nphy = { standard = "ac", width_mhz = 80, streams = 2, mcs = 9 }\n')
    if not given.apple:
        names = ", ".join(f'"{name}"' for name in controls)
        print(f'[sweep]\n"terminal.sender.control" = [{names}]\n')
    for number in range(1, given.paths + 1):
        rate_mbps = round(log_even(rng, 1, 100), 1)
        rtt_ms = round(log_even(rng, 10, 600))
        bdp_packets = rate_mbps * 1e6 * rtt_ms / 1e3 / 8 / PACKET_BYTES
        queue = max(4, round(bdp_packets * rng.uniform(0.3, 3)))
        loss = float(f"{log_even(rng, 1e-5, 1e-3):.1e}") if rng.random() < 0.5 else 0
        values = f'"path.rate_mbps" = {rate_mbps}, "path.rtt_ms" = {rtt_ms}, "path.queue_packets" = {queue}, "path.loss" = {loss}'
        if given.apple:
            values += ', "terminal.sender.cubic" = { c = 0.4, beta = 0.8 }'
        print(f'[[variant]]\nname = "path-{number:02}"\nset = {{ {values} }}\n')


if __name__ == "__main__":
    main()
