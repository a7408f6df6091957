#!/usr/bin/env python3
"""Compares the laboratory's wire with the kernel's netem on the paths of
scenarios/wire-netem.toml, both in virtual time: compare-wire.py [RESULTS_FOLDER].

Prints throughput (acknowledged bytes) and mean RTT after warm-up. Exits with 1 if a throughput
differs by more than 2 %. Needs root. Takes about a quarter of an hour; finished runs are not
repeated. YUZURI_LAB and YUZURI_VM are the programs; `make compare-wire` builds them.
"""
import json
import os
import pathlib
import subprocess
import sys
import tomllib

MAX_PERCENT = 2.0


def by_netem(vm, folder, path, duration_s, warm_up_s):
    """Runs a path with netem. Returns Mbit/s and ms after warm-up, from the lines of
    tcp:tcp_probe."""
    probe = folder / "probe"
    if not probe.exists():
        made = folder.with_name(folder.name + ".part")
        made.mkdir(parents=True, exist_ok=True)
        print(f"netem: {folder.name}", file=sys.stderr)
        # netem's limit includes the packet in transmission; the wire's queue length does not.
        words = [path["rate_mbps"], path["rtt_ms"], path["queue_packets"] + 1, duration_s]
        subprocess.run(
            [vm, "run", "--quiet", "--timeout", "3600", "--results", made, "--file", "crates/yuzuri-vm/guest/transfer.sh:/root/transfer.sh",
             "--", "sh", "/root/transfer.sh", *map(str, words)],
            check=True, stdout=subprocess.DEVNULL)
        made.rename(folder)
    rows = [line.split() for line in probe.read_text().splitlines()]
    # iperf3's control connection sends nothing during the recorded time.
    begin_s = float(rows[0][0])
    rows = [(float(row[0]) - begin_s, int(row[2], 16), int(row[5])) for row in rows]
    kept = [row for row in rows if warm_up_s <= row[0] <= duration_s]
    acked_bytes = (kept[-1][1] - kept[0][1]) % 2**32
    return acked_bytes * 8 / (kept[-1][0] - kept[0][0]) / 1e6, sum(row[2] for row in kept) / len(kept) / 1000


def main():
    here = pathlib.Path(__file__).resolve().parent.parent
    results = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else here / "lab-results/wire-netem").resolve()
    os.chdir(here)
    built = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "release"
    lab, vm = (os.environ.get(name, built / program) for name, program in [("YUZURI_LAB", "yuzuri-lab"), ("YUZURI_VM", "yuzuri-vm")])
    scenario = tomllib.loads(pathlib.Path("scenarios/wire-netem.toml").read_text())
    subprocess.run([lab, "sweep", "scenarios/wire-netem.toml", "--clock", "virtual", "--jobs", "1", "--no-report", "--out", results / "wire"], check=True)
    print(f"{'path':<12} {'':>8} {'wire':>8} {'netem':>8}  differ by")
    beyond = False
    for variant in scenario["variant"]:
        path = {name.removeprefix("path."): value for name, value in variant["set"].items()}
        duration_s, warm_up_s = ({**scenario, **path}[name] for name in ["duration_s", "warm_up_s"])
        netem = by_netem(vm, results / "netem" / variant["name"], path, duration_s, warm_up_s)
        run = json.loads((results / "wire" / variant["name"] / "seed-1/run.json").read_text())
        wire = run["totals"]["throughput_mbps"], run["totals"]["rtt_mean_ms"]
        for name, of_wire, of_netem in zip(["Mbit/s", "RTT, ms"], wire, netem):
            percent = (of_wire / of_netem - 1) * 100
            bad = name == "Mbit/s" and abs(percent) > MAX_PERCENT
            beyond |= bad
            print(f"{variant['name']:<12} {name:>8} {of_wire:8.2f} {of_netem:8.2f}  {percent:+.2f} %{'  BEYOND' if bad else ''}")
    sys.exit(1 if beyond else 0)


if __name__ == "__main__":
    main()
