#!/usr/bin/env python3
"""Evaluates `yuzuri identify` on labelled captures and logs from outside the laboratory, and prints
for each set and for all: how often a flow that is not limited by its window is reported as unknown
with its cause, how often an answer with p >= 0.9 is right, and the expected calibration error.

    scripts/wild-figures.py [--identify PROGRAM] [--unlimited PREFIX,...] [--hide-names] [--list] FOLDER...

A file's label is the first word of its name, between `_`, `-` and `.`, that is the name of a
congestion control. In captures of scripts/wild-captures.py the first word is the flow's limit. For
others, `--unlimited` lists prefixes of files whose flows were not limited by their window. Flows of
BBR do not count as such, since a window never limits BBR.

`--hide-names` evaluates only logs of `ss`, each flow by itself. Its label is the name that `ss` printed,
which is hidden from the program.

Each folder is evaluated by itself, so that folders used to develop the rules and folders that were
held out have separate figures.
"""
import argparse
import json
import lzma
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile

CONTROLS = {
    "bbr", "bic", "cdg", "cubic", "dctcp", "highspeed", "htcp", "hybla", "illinois", "lp", "nv", "reno", "scalable", "vegas",
    "veno", "westwood", "yeah",
}
UNLIMITED_KINDS = ("device_", "application_", "pacing_", "receiver_")
SURE = 0.9
# Texts in a reason that name a cause.
CAUSE = re.compile(r"limited by (?!the window)|may hold it|may set it|may limit it|window was full|receiver limited")


def label(name):
    # The laboratory's CUBIC with Apple's constants has its own name.
    if name.startswith("cubic_apple_old_"):
        return "cubic_apple_old"
    return next((word for word in re.split(r"[_.-]", name) if word in CONTROLS), None)


def is_sure(names, probability):
    """Whether the observations distinguish the name; a higher prior alone does not count."""
    return probability >= SURE and len(names) == 1


def tenth_of(probability):
    return min(9, int(probability * 10))


class Answers:
    """Counts answers with a name and right ones, and collects their probabilities."""

    def __init__(self):
        self.flows = self.named = self.right = self.within = self.sure = self.sure_right = 0
        self.tenths = {}
        self.stated = []

    def add_named(self, names, probability, truth):
        right, sure = names[0] == truth, is_sure(names, probability)
        self.named += 1
        self.right += right
        self.within += truth in names
        self.sure += sure
        self.sure_right += sure and right
        self.stated.append(probability)
        tenth = tenth_of(probability)
        stated, count, number = self.tenths.get(tenth, (0.0, 0, 0))
        self.tenths[tenth] = (stated + probability, count + right, number + 1)

    def join(self, other):
        for name, value in vars(other).items():
            if isinstance(value, int):
                setattr(self, name, getattr(self, name) + value)
        self.stated = self.stated + other.stated
        for tenth, cell in other.tenths.items():
            self.tenths[tenth] = tuple(a + b for a, b in zip(self.tenths.get(tenth, (0.0, 0, 0)), cell))

    def calibration_error(self):
        return sum(abs(stated - right) for stated, right, _ in self.tenths.values()) / max(self.named, 1)

    def calibration_error_by_chance(self):
        """Median and 95th percentile of the error for perfectly calibrated answers with the same
        probabilities."""
        rng, errors = random.Random(1), []
        for _ in range(1000):
            off = {}
            for stated in self.stated:
                off[tenth_of(stated)] = off.get(tenth_of(stated), 0.0) + stated - (rng.random() < stated)
            errors.append(sum(map(abs, off.values())) / max(self.named, 1))
        return sorted(errors)[500], sorted(errors)[950]


def without_prior(flow):
    """The most probable name and its probability under a uniform prior, as in an experiment with
    all algorithms."""
    weights = {ranked["name"]: ranked["probability"] * math.exp(-ranked["score"]["prior"]) for ranked in flow["ranked"]}
    name = max(weights, key=weights.get)
    return name, weights[name] / (sum(weights.values()) + (flow["none"] or {"probability": 0.0})["probability"])


class Tally(Answers):
    def __init__(self):
        super().__init__()
        self.equally = Answers()
        self.unlimited = self.unlimited_unknown = self.unlimited_cause = 0
        self.falls = self.reductions = 0
        self.twice = 0
        self.lines = []

    def add(self, file, flow, is_unlimited, truth):
        answer = flow["answer"]
        names = answer["set"] if answer["kind"] == "named" else []
        if truth == "dctcp" and names[:1] == ["reno"] and flow["window_trace"].get("data_without_ect"):
            # The peer did not negotiate ECN: the kernel then uses Reno (`dctcp_reno`).
            truth = "reno"
        probability = flow["ranked"][0]["probability"] if flow["ranked"] else 0.0
        self.flows += 1
        self.twice += any("captured twice" in note for note in flow["notes"])
        if is_unlimited and truth != "bbr":
            self.unlimited += 1
            self.unlimited_unknown += not names
            self.unlimited_cause += not names and bool(CAUSE.search(answer["because"]))
        right = bool(names) and names[0] == truth
        if names:
            self.add_named(names, probability, truth)
            name, equally = without_prior(flow)
            self.equally.add_named([name], equally, truth)
        if right:
            # For flows with the right name: reductions, and those without a visible loss.
            self.reductions += flow["summary"]["losses"]
            fell = [word for word in flow["evidence"] if word.endswith("without a sign of loss")]
            self.falls += sum(int(re.search(r"fell (\d+) times?", word).group(1)) for word in fell)
        if not right:
            said = ", ".join(names) if names else f"unknown: {answer['because']}"
            self.lines.append(f"  {pathlib.Path(file['path']).name} {truth}: {said} ({probability:.2f})")

    def join(self, other):
        super().join(other)
        self.equally.join(other.equally)

    def print(self, title):
        def part(count, of):
            return f"{count} of {of} ({100 * count / of:.1f} %)" if of else "none"

        print(f"== {title}")
        print(f"flows with a label:                               {self.flows}")
        print(f"not limited by the window, CUBIC and others: unknown: {part(self.unlimited_unknown, self.unlimited)}")
        print(f"  with the limit, or a possible one:              {part(self.unlimited_cause, self.unlimited)}")
        print(f"named:                                            {part(self.named, self.flows)}")
        print(f"  first name right:                               {part(self.right, self.named)}")
        print(f"  within the set:                                 {part(self.within, self.named)}")
        print(f"  p >= {SURE} is right:                             {part(self.sure_right, self.sure)}")
        print(f"expected calibration error:                       {self.calibration_error():.3f}")
        median, most = self.calibration_error_by_chance()
        print(f"  by chance, of answers that state the truth:     {median:.3f}, in 19 of 20 cases below {most:.3f}")
        print(f"  if each algorithm is run as often:              {self.equally.calibration_error():.3f}, "
              f"first name right {part(self.equally.right, self.equally.named)}")
        for tenth, (stated, right, count) in sorted(self.tenths.items()):
            print(f"  stated {tenth / 10:.1f} to {tenth / 10 + 0.1:.1f}: {count} flows, mean {stated / count:.2f}, right {right / count:.2f}")
        print(f"falls without a visible loss, where the name is right: {self.falls}, beside {self.reductions} reductions\n")


def identify(program, folder):
    found = subprocess.run([program, "--json", folder], stdout=subprocess.PIPE, check=False)
    return json.loads(found.stdout)["files"]


def without_name(line):
    """A line of ss without the name of the congestion control, which precedes the first field."""
    return re.sub(r"\bbbr:\([^)]*\) ", "", re.sub(rf"\b({'|'.join(CONTROLS)}) (?=wscale:|rto:)", "", line))


def judge_hidden(program, folder):
    ends = lambda file, flow: (pathlib.Path(file["path"]).name, flow["from"], flow["to"])
    logs = [file for file in identify(program, folder) if file["kind"] == "ss"]
    names = {ends(file, flow): flow["kernel_name"] for file in logs for flow in file["flows"]}
    tally = Tally()
    with tempfile.TemporaryDirectory() as hidden:
        for file in logs:
            path = pathlib.Path(file["path"])
            with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as lines:
                (pathlib.Path(hidden) / path.name).write_text("".join(map(without_name, lines)), encoding="utf-8")
        for file in identify(program, hidden):
            for flow in file["flows"]:
                truth = names[ends(file, flow)]
                if flow["kernel_name"]:
                    sys.exit(f"{file['path']}: {flow['kernel_name']} is not hidden; add it to CONTROLS")
                if truth in CONTROLS:
                    tally.add(file, flow, False, truth)
    return tally


def judge(program, folder, unlimited):
    tally = Tally()
    for file in identify(program, folder):
        name = pathlib.Path(file["path"]).name
        if not label(name):
            continue
        if file["error"]:
            print(f"{name}: {file['error']}", file=sys.stderr)
        several = name.startswith("several_") or file["kind"] == "ss"
        flows = file["flows"] if several else sorted(file["flows"], key=lambda flow: -flow["window_trace"]["acked_bytes"])[:1]
        for flow in flows if not unlimited or not name.startswith(unlimited) else file["flows"]:
            is_unlimited = name.startswith(UNLIMITED_KINDS) or bool(unlimited) and name.startswith(unlimited)
            tally.add(file, flow, is_unlimited, label(name))
    return tally


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--identify", default="target/release/yuzuri-identify", help="the program (target/release/yuzuri-identify)")
    options.add_argument("--unlimited", default="", help="prefixes of the names of captures that no window limited, comma-separated")
    options.add_argument("--hide-names", action="store_true", help="logs of ss, without the names that they contain")
    options.add_argument("--list", action="store_true", help="list every answer that is not the right name")
    options.add_argument("folders", nargs="+", type=pathlib.Path)
    given = options.parse_args()
    together = Tally()
    unlimited = tuple(prefix for prefix in given.unlimited.split(",") if prefix)
    for folder in given.folders:
        tally = judge_hidden(given.identify, folder) if given.hide_names else judge(given.identify, folder, unlimited)
        tally.print(folder)
        if given.list:
            print("\n".join(tally.lines), "\n")
        together.join(tally)
    if len(given.folders) > 1:
        together.print("together")


if __name__ == "__main__":
    main()
