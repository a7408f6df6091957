#!/usr/bin/env python3
"""Measures the laboratory's speed with scenarios/speed: lab-speed.py. In real time, with
everything on one processor (the driver, the hosts' TCP, the monitor): the fraction of late
packets. In virtual time: the cost of a second. The real-time runs need root."""
import glob
import json
import os
import shutil
import subprocess
import sys

LAB = os.environ.get("YUZURI_LAB", "target/release/yuzuri-lab")
RESULTS = "lab-results/speed"


def sweep(name, clock, *before):
    """Runs a scenario from scratch and returns the folders of its runs."""
    out = f"{RESULTS}/{name}"
    shutil.rmtree(out, ignore_errors=True)
    words = ["sweep", f"scenarios/speed/{name}.toml", "--clock", clock, "--jobs", "1", "--no-report", "--out", out]
    done = subprocess.run([*before, LAB, *words], stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"lab-speed: {LAB} {' '.join(words)} ended with {done.returncode}")
    return sorted(glob.glob(f"{out}/*/seed-*"))


def read(folder, name):
    with open(f"{folder}/{name}", encoding="utf-8") as file:
        return json.load(file)


os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
processor = min(os.sched_getaffinity(0))
print("real time, 2 x 802.11ac over 100 Mbit/s, all on one processor")
print("  Mbit/s   late  worst, ms  of the processor: driver, all")
for folder in sweep("hundred", "real", "taskset", "-c", str(processor)):
    run = read(folder, "run.json")
    late = run["lateness"]
    share = 100 * late["late"] / late["delivered"]
    driver, whole = (100 * run[cpu] / run["wall_s"] for cpu in ("driver_cpu_s", "process_cpu_s"))
    print(f"  {run['totals']['throughput_mbps']:6.1f} {share:5.2f} % {late['worst_ns'] / 1e6:8.1f}  {driver:19.0f} %, {whole:.0f} %")
print("virtual time, 6 x 802.11g uploading, watched")
for folder in sweep("six-g", "virtual"):
    run, guest = read(folder, "run.json"), read(folder, "vm.json")["outcome"]
    cost = (guest["cpu_s"] - guest["boot_cpu_s"]) / guest["guest_s"]
    print(f"  {run['totals']['throughput_mbps']:.1f} Mbit/s: {cost:.2f} s of CPU for each virtual second, and {guest['boot_cpu_s']:.1f} s for booting")
