#!/usr/bin/env python3
"""Makes logs of `ss -tin` from recordings, as polling would have produced them:

    scripts/ss-logs.py --seed 7 --out FOLDER [--yuzuri PROGRAM] [--named] RECORDINGS...

RECORDINGS are folders of runs of the laboratory (scripts/identify-figures.sh keeps them). The polling
interval of each sender is drawn log-uniformly from 0.1 to 3 median round-trip times, and each call is
late by up to a fifth of it. A row has the kernel's state at that moment: that of the recording's next
event, which was recorded before its acknowledgement was processed. Without --named the algorithm's
name is omitted, so that identification does not compare its answer with it.

The files are FOLDER/CONTROL_RUN_INTERVAL.ss.txt, with INTERVAL in round-trip times.
"""
import argparse
import csv
import pathlib
import random
import subprocess
import sys
import tempfile

MIN_PART, MAX_PART = 0.1, 3.0
LATE = 0.2
# An empty value in the converted recording.
NONE = ""


def rows(program, recording):
    with tempfile.TemporaryDirectory() as folder:
        table = pathlib.Path(folder) / "rows.csv"
        subprocess.run([program, "convert", recording, table], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(table, newline="", encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                if row["flow"] and row["cwnd"] and row["role"] == "opened":
                    yield row


def line(row, segments_in, named):
    def has(name, text):
        return [] if row[name] in (NONE, "0") else [text]

    def ms(name):
        return f"{int(row[name] or 0) / 1000:g}"

    words = ["ts", "sack"] + ([row["congestion_control"]] if named else []) + [
        "wscale:7,7", "rto:204", f"rtt:{ms('srtt_us')}/{ms('rttvar_us')}", f"mss:{row['mss_bytes']}", f"cwnd:{row['cwnd']}"]
    words += has("ssthresh", f"ssthresh:{row['ssthresh']}")
    words += has("bytes_acked", f"bytes_acked:{row['bytes_acked']}") + [f"segs_in:{segments_in}"]
    words += ["app_limited"] if row["mark_app_limited"] == "true" else []
    words += has("packets_out", f"unacked:{row['packets_out']}")
    words += has("total_retrans", f"retrans:{row['retrans_out']}/{row['total_retrans']}")
    words += has("lost_out", f"lost:{row['lost_out']}") + has("sacked_out", f"sacked:{row['sacked_out']}")
    words += has("min_rtt_us", f"minrtt:{ms('min_rtt_us')}") + has("snd_wnd_bytes", f"snd_wnd:{row['snd_wnd_bytes']}")
    return " ".join(words)


def log(events, rng, part, named):
    """Yields the lines of each call, from the first event to the last."""
    srtts_us = sorted(int(row["srtt_us"]) for row in events if row["srtt_us"])
    interval_ns = part * srtts_us[len(srtts_us) // 2] * 1000
    due_ns = int(events[0]["mono_ns"]) + interval_ns * rng.random()
    segments_in = 0
    for row in events:
        while int(row["mono_ns"]) > due_ns:
            yield f"{due_ns / 1e9:.6f}"
            yield f"ESTAB 0 0 {row['local']}:{row['local_port']} {row['remote']}:{row['remote_port']}"
            yield "\t " + line(row, segments_in, named)
            due_ns += interval_ns * (1 + LATE * rng.random())
        segments_in += int(row["acks"] or 0)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, required=True, help="of the intervals")
    options.add_argument("--out", type=pathlib.Path, required=True, help="folder for the logs")
    options.add_argument("--yuzuri", default="target/release/yuzuri", help="the program (target/release/yuzuri)")
    options.add_argument("--named", action="store_true", help="with the name of the congestion control, as ss prints it")
    options.add_argument("recordings", nargs="+", type=pathlib.Path)
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for folder in given.recordings:
        for recording in sorted(folder.rglob("*.arrows")):
            events = list(rows(given.yuzuri, recording))
            flows = {row["flow"] for row in events}
            if len(flows) != 1:
                sys.exit(f"{recording}: has {len(flows)} senders, a run of one is needed; choose other recordings")
            run = "-".join([folder.name, *recording.relative_to(folder).parts[:-1]]).replace("_", "-").replace("=", "-")
            rng = random.Random(f"{given.seed} {run}")
            part = MIN_PART * (MAX_PART / MIN_PART) ** rng.random()
            name = f"{events[0]['congestion_control']}_{run}_{part:.2f}.ss.txt"
            (given.out / name).write_text("\n".join(log(events, rng, part, given.named)) + "\n", encoding="utf-8")
            print(f"{name}: {len(events)} events", flush=True)


if __name__ == "__main__":
    main()
