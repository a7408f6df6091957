#!/usr/bin/env python3
"""Evaluates `yuzuri identify` on captures of scripts/wild-transfers.py:

    scripts/wild-judge.py [--identify PROGRAM] [--side snd,rcv,mid] [--change late] [--list] FOLDER

--change evaluates copies as made by scripts/wild-changed.py (only captures with Ethernet headers).
Prints for each kind how many flows are named, how many of the names are right, and how often a sure
answer (p >= 0.9, no other name in the set) is right; for flows of CUBIC and Reno that no window
limited ("not window"), how many are unknown, and how many of these with the right cause. A cause is
right if it is one of the kind's causes. "may hold it" and "may set it" never count as a wrong cause,
and count as right only if the text names the kind's cause.
"""
import argparse
import concurrent.futures
import importlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
wild_changed = importlib.import_module("wild-changed")
wild_figures = importlib.import_module("wild-figures")

APPLICATION, BUFFER, RECEIVER, PACING, DEVICE = "the application", "the send buffer", "the receiver's", "pacing", "the sender's own device"
# The right causes of each kind.
CAUSES = {
    "steady": (APPLICATION,), "bursts": (APPLICATION,), "chunks": (APPLICATION,), "requests": (APPLICATION,), "short": (APPLICATION,),
    "pacing": (PACING,), "device": (DEVICE,), "receiver": (RECEIVER,), "reader": (RECEIVER,), "buffer": (BUFFER,),
    "changes": (APPLICATION,), "drops": (DEVICE,),
}
UNLIMITED = ("steady", "requests", "pacing", "device", "receiver", "reader", "buffer", "bursts")


def cause(because):
    told = [held for held in re.findall(r"limited by ([^,;]*?)(?: at [\d.]+ Mbit/s|,|;|$)", because) if not held.startswith("the window")]
    if told:
        return told[0]
    if "receiver's window was full" in because:
        return "the receiver's window"
    may = re.search(r"; ?(?:a rate of )?([^;]*?) may (?:hold|set|limit) it", because) or re.search(r": (the application[^;]*) may (?:hold|set|limit) it", because)
    return f"may: {may.group(1)}" if may else None


class Kind(wild_figures.Answers):
    def __init__(self):
        super().__init__()
        self.unknown = self.cause = self.wrong_cause = 0

    def line(self, name):
        return (f"{name:10} {self.flows:4} flows, named {self.named:3}, right {self.right:3}, within {self.within:3}, sure right {self.sure_right:3} of {self.sure:3}, "
                f"ECE {self.calibration_error():.2f}, unknown {self.unknown:3}, right cause {self.cause:3}, wrong cause {self.wrong_cause}")


class Judge:
    """Counters by kind for the captures of one side, and the listed lines."""

    def __init__(self, list_all):
        self.list_all, self.kinds, self.lines = list_all, {}, []
        # Only CUBIC and Reno: a window never limits BBR.
        self.unlimited = Kind()

    def judge(self, name, side, drawn, code, told):
        if told is None:
            self.lines.append(f"  {name}.{side}: CRASH {code}")
            return
        for flow in told["files"][0]["flows"]:
            label, is_back = labelled(flow, drawn)
            if label:
                self.judge_flow(f"  {name}.{side} {label['control']} {path_of(drawn)}", drawn, flow, label["control"])
            elif is_back and flow["answer"]["kind"] == "named":
                self.lines.append(f"  {name}.{side}: the reverse direction is named {flow['answer']}")

    def judge_flow(self, where, drawn, flow, truth):
        kind = self.kinds.setdefault(drawn["kind"], Kind())
        judge = self.judge_named if flow["answer"]["kind"] == "named" else self.judge_unknown
        if drawn["kind"] in UNLIMITED and truth != "bbr":
            self.unlimited.flows += 1
            judge(self.unlimited, drawn, flow, truth)
        kind.flows += 1
        line = judge(kind, drawn, flow, truth)
        if line:
            self.lines.append(f"{where}: {line} [{flow['capture_point']}]")

    def judge_named(self, kind, drawn, flow, truth):
        names, probability = flow["answer"]["set"], flow["ranked"][0]["probability"]
        kind.add_named(names, probability, truth)
        right, unlimited = names[0] == truth, drawn["kind"] in UNLIMITED and truth != "bbr"
        if right and not unlimited and not self.list_all:
            return None
        if not right:
            flag = "WRONG SURE" if wild_figures.is_sure(names, probability) else "wrong"
        else:
            flag = "named though not limited" if unlimited else ""
        return f"{flag} {names} {probability:.2f}"

    def judge_unknown(self, kind, drawn, flow, truth):
        kind.unknown += 1
        said = flow["answer"]["because"]
        because = cause(said) or ""
        right = any(word in because for word in CAUSES.get(drawn["kind"], ()))
        wrong = bool(because) and not because.startswith("may:") and not right and not (truth == "bbr" and "pacing" in because)
        kind.cause += right
        kind.wrong_cause += wrong
        if not wrong and not self.list_all and (right or drawn["kind"] not in UNLIMITED):
            return None
        return f"{'WRONG CAUSE' if wrong else ''} unknown ({said})"


def labelled(flow, drawn):
    """The draw of a flow, and whether this is the reverse direction of a drawn flow."""
    ends = [int((flow[end] or "0:0").rpartition(":")[2]) for end in ("from", "to")] if "from" in flow else [0, 0]
    there = [label for label in drawn["flows"] if [label["from"], label["to"]] == ends]
    back = [label for label in drawn["flows"] if [label["to"], label["from"]] == ends]
    # In this kind both ends send, with the same control.
    if not there and drawn["kind"] == "sides":
        there = back
    return there[0] if there else None, bool(back)


def path_of(drawn):
    marks = [
        (drawn["ipv6"], "v6"), (drawn["mtu"] != 1500, f"mtu {drawn['mtu']}"), (not drawn["offload"], "no-tso"), (drawn.get("stalls"), "stalls"),
        (drawn["back"].get("thin"), f"thin {drawn['back'].get('thin')}"), (drawn["there"].get("overtakes"), "over"),
    ]
    words = [f"{drawn['there']['rate_bps'] / 1e6:.1f}M", f"{2e3 * drawn['there']['delay_s']:.0f}ms"]
    return " ".join(words + [word for is_so, word in marks if is_so])


def changed(change, names, side, folder, into):
    """Makes changed copies of captures."""
    for name in names:
        try:
            wild_changed.copy(change, folder / f"{name}.{side}.pcap", f"{name}.{side}.pcap", into)
        except (ValueError, SystemExit, KeyError, IndexError, TypeError) as error:
            print(f"{name}: not changed: {error!r}", file=sys.stderr)


def identify(program, path):
    """Returns the exit code and the document; None if the capture does not exist."""
    if not path.exists():
        return None
    done = subprocess.run([program, "--json", "--all", "--jobs", "1", path], stdout=subprocess.PIPE, check=False)
    return done.returncode, json.loads(done.stdout) if done.returncode in (0, 3) else None


def judge_folder(judge, folder, side, given):
    labels = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*_*.json"))}
    with tempfile.TemporaryDirectory() as temporary:
        at = folder
        if given.change:
            at = pathlib.Path(temporary)
            changed(given.change, labels, side, folder, at)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = pool.map(lambda name: identify(given.identify, at / f"{name}.{side}.pcap"), labels)
            for (name, drawn), result in zip(labels.items(), results):
                if result:
                    judge.judge(name, side, drawn, *result)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--identify", default="target/release/yuzuri-identify")
    options.add_argument("--side", default="snd,rcv,mid")
    options.add_argument("--change")
    options.add_argument("--list", action="store_true", help="list every answer that is not right")
    options.add_argument("--all", action="store_true", help="list every answer")
    options.add_argument("folders", nargs="+", type=pathlib.Path)
    given = options.parse_args()
    everything = Kind()
    for side in given.side.split(","):
        judge = Judge(given.all)
        for folder in given.folders:
            judge_folder(judge, folder, side, given)
        print_side(side, judge, given.list or given.all, everything)
    print(everything.line("everything"))
    median, most = everything.calibration_error_by_chance()
    print(f"ECE by chance, of answers that state the truth: {median:.2f}, in 19 of 20 cases below {most:.2f}")


def print_side(side, judge, with_lines, everything):
    print(f"== {side}")
    if with_lines:
        print("\n".join(judge.lines))
    total = Kind()
    for name, kind in sorted(judge.kinds.items()):
        print(kind.line(name))
        total.join(kind)
    print(judge.unlimited.line("not window"))
    print(total.line("all"), "\n")
    everything.join(total)


if __name__ == "__main__":
    main()
