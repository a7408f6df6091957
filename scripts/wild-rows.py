#!/usr/bin/env python3
"""Evaluates `yuzuri identify` on copies of captures as they would look in other conditions, with one
row for each change of scripts/wild-changed.py:

    scripts/wild-rows.py [--identify PROGRAM] [--changes late,early,...] [--list] FOLDER

FOLDER contains labelled captures at the sender, or runs of the laboratory. Copies are made one change
at a time in a temporary folder (TMPDIR), and removed. An answer is wrong if the right name is not in
its set. For duplicated packets, the answer must contain a note.
"""
import argparse
import importlib
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
wild_changed = importlib.import_module("wild-changed")
wild_figures = importlib.import_module("wild-figures")

CHANGES = ["none", "late", "early", "twice", "missed=0.001", "missed=0.01", "untimed", "coarse", "sums", "tunnel", "received,untimed"]
TITLES = {
    "none": "as they are",
    "late": "the first 15 s missing",
    "early": "the first 10 s only",
    "twice": "each packet twice",
    "missed=0.001": "0.1 % of the packets missed",
    "missed=0.01": "1 % of the packets missed",
    "untimed": "without timestamps",
    "coarse": "a clock of 1 ms",
    "sums": "all checksums wrong",
    "tunnel": "in a tunnel, at random",
    "received,untimed": "as at the receiver, without timestamps",
}


def row(change, captures, program):
    with tempfile.TemporaryDirectory() as folder:
        into = pathlib.Path(folder)
        for path, name in captures:
            wild_changed.copy(change, path, name, into)
        return wild_figures.judge(program, into, ())


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--identify", default="target/release/yuzuri-identify", help="the program (target/release/yuzuri-identify)")
    options.add_argument("--changes", default="/".join(CHANGES), help="only these changes, separated by slashes")
    options.add_argument("--list", action="store_true", help="list every answer that is not the right name")
    options.add_argument("folder", type=pathlib.Path)
    given = options.parse_args()
    captures = list(wild_changed.captures(given.folder))
    print("| | captures | named | first name right | within the set | wrong | p >= 0.9 is right | calibration error | reported as duplicated |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for change in given.changes.split("/"):
        tally = row(change, captures, given.identify)
        print(f"| {TITLES.get(change, change)} | {tally.flows} | {tally.named} | {tally.right} | {tally.within} | {tally.named - tally.within} "
              f"| {tally.sure_right} of {tally.sure} | {tally.calibration_error():.3f} | {tally.twice} |", flush=True)
        if given.list:
            print("\n".join(line for line in tally.lines if ": unknown" not in line), flush=True)


if __name__ == "__main__":
    main()
