#!/usr/bin/env python3
"""Makes logs of `ss -tin` of randomly drawn senders that share a path, in virtual time, with all
congestion controls of Debian's kernel. scripts/wild-figures.py --hide-names evaluates them.

    scripts/polled-logs.py --seed 7 --runs 12 --out FOLDER [--seconds 40] [--jobs 1]

Each run has one to three senders, with a rate of 0.4 to 6 Mbit/s, a round-trip time of 1 to 80 ms
without a queue, and a queue of 0.1 to 1.2 s. Of the senders, two fifths are Vegas, one fifth NV,
and the others those of OTHERS. FOLDER/SEED-NUMBER.ss.txt is a log, and SEED-NUMBER/vm.json says how to
reproduce it. Existing logs are not made again.
"""
import argparse
import concurrent.futures
import pathlib
import random
import subprocess
import sys

OTHERS = ["reno", "cubic", "bbr", "westwood", "veno", "illinois", "yeah", "cdg", "htcp"]
PACKET_BITS = 12_000
MIN_PACKETS = 8


def draw(rng):
    log = lambda low, high: low * (high / low) ** rng.random()
    rate_kbit, rtt_ms, queue_s = log(400, 6000), log(1, 80), log(0.1, 1.2)
    packets = max(MIN_PACKETS, int(rate_kbit * 1000 * queue_s / PACKET_BITS))
    flows = []
    for _ in range(rng.randint(1, 3)):
        control = rng.choices(["vegas", "nv", rng.choice(OTHERS)], [2, 1, 2])[0]
        flows.append(f"{control}:{rng.choice([0, 0, 0.5, 3])}")
    return [f"{rate_kbit:.0f}", f"{rtt_ms:.1f}", str(packets)], f"{log(0.03, 0.12):.3f}", flows


def make(given, number):
    path, pause, flows = draw(random.Random(f"{given.seed} {number}"))
    name = f"{given.seed}-{number:02}"
    out = given.out / name
    log = given.out / f"{name}.ss.txt"
    if log.exists():
        return f"{name}: exists"
    script = pathlib.Path(__file__).parent / "polled-logs.sh"
    words = [given.vm, "run", "--quiet", "--seed", str(number + 1), "--results", out, "--file", f"{script}:/root/polled.sh", "--",
             "sh", "/root/polled.sh", *path, str(given.seconds), pause, *flows]
    subprocess.run(words, check=True)
    (out / "log").rename(log)
    return f"{name}: {' '.join(path)}, {pause}, {' '.join(flows)}"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, required=True, help="of the paths and senders")
    options.add_argument("--runs", type=int, default=12, help="number of logs (12)")
    options.add_argument("--seconds", type=int, default=40, help="duration of a transfer (40)")
    options.add_argument("--jobs", type=int, default=1, help="guests at a time (1)")
    options.add_argument("--vm", default="target/release/yuzuri-vm", help="the program (target/release/yuzuri-vm)")
    options.add_argument("--out", type=pathlib.Path, required=True, help="folder for the logs")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        for run in [pool.submit(make, given, number) for number in range(given.runs)]:
            try:
                print(run.result(), flush=True)
            except (subprocess.CalledProcessError, OSError) as error:
                sys.exit(f"making a log failed: {error}; see the output above")


if __name__ == "__main__":
    main()
