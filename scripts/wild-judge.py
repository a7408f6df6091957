#!/usr/bin/env python3
"""Judges `yuzuri identify` on captures of scripts/wild-lot.py:

    scripts/wild-judge.py [--identify PROGRAM] [--side snd,rcv,mid] [--change late] [--list] FOLDER

--change judges copies as another user would have made them (scripts/wild-changed.py, captures by Ethernet only).
Prints for each kind how many flows are named, rightly, and how often what is sure (p >= 0.9) is right,
and of flows that no window limited how many are unknown, and with the right cause. A cause is right if it is
one of those that the kind's flows have; "may hold it" and "may set it" are no wrong cause, and no right one
unless what holds it is among the words.
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
# What may be said of each kind.
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
        kinds, lines = {}, []
        for folder in given.folders:
            labels = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*_*.json"))}
            with tempfile.TemporaryDirectory() as temporary:
                names = list(labels)
                if given.change:
                    for name in names:
                        try:
                            wild_changed.copy(given.change, folder / f"{name}.{side}.pcap", f"{name}.{side}.pcap", pathlib.Path(temporary))
                        except (ValueError, SystemExit, KeyError, IndexError, TypeError) as error:
                            print(f"{name}: not changed: {error!r}", file=sys.stderr)
                    at = pathlib.Path(temporary)
                else:
                    at = folder
                def found(name):
                    path = at / f"{name}.{side}.pcap"
                    if not path.exists():
                        return None
                    done = subprocess.run([given.identify, "--json", "--all", "--jobs", "1", path], stdout=subprocess.PIPE, check=False)
                    return (done.returncode, json.loads(done.stdout)) if done.returncode in (0, 3) else (done.returncode, None)
                with concurrent.futures.ThreadPoolExecutor(2) as pool:
                    results = dict(zip(names, pool.map(found, names)))
            for name, result in results.items():
                drawn = labels[name]
                if result is None:
                    continue
                code, told = result
                if told is None:
                    lines.append(f"  {name}.{side}: CRASH {code}")
                    continue
                for flow in told["files"][0]["flows"]:
                    ends = [int((flow[end] or "0:0").rpartition(":")[2]) for end in ("from", "to")] if "from" in flow else [0, 0]
                    match = [f for f in drawn["flows"] if [f["from"], f["to"]] == ends]
                    back = [f for f in drawn["flows"] if [f["to"], f["from"]] == ends]
                    if not match and back and drawn["kind"] == "sides":
                        match = back
                    if not match:
                        if back and flow["answer"]["kind"] == "named":
                            lines.append(f"  {name}.{side}: the way back is named {flow['answer']}")
                        continue
                    kind = kinds.setdefault(drawn["kind"], Kind())
                    kind.flows += 1
                    truth, answer = match[0]["control"], flow["answer"]
                    unlimited = drawn["kind"] in UNLIMITED
                    probability = flow["ranked"][0]["probability"] if flow["ranked"] else 0.0
                    marks = "".join([" v6" if drawn["ipv6"] else "", "" if drawn["mtu"] == 1500 else f" mtu {drawn['mtu']}", "" if drawn["offload"] else " no-tso",
                                     " stalls" if drawn.get("stalls") else "", f" thin {drawn['back']['thin']}" if drawn["back"].get("thin") else "", " over" if drawn["there"].get("overtakes") else ""])
                    where = f"  {name}.{side} {truth} {drawn['there']['rate_bps'] / 1e6:.1f}M {2e3 * drawn['there']['delay_s']:.0f}ms{marks}"
                    if answer["kind"] == "named":
                        names_, right, sure = answer["set"], answer["set"][0] == truth, probability >= wild_figures.SURE
                        kind.add_named(names_, probability, truth)
                        if not right or given.all or unlimited and truth != "bbr":
                            flag = "WRONG SURE" if sure and not right else "wrong" if not right else "named though not limited" if unlimited else ""
                            lines.append(f"{where}: {flag} {names_} {probability:.2f} [{flow['capture_point']}]")
                        continue
                    kind.unknown += 1
                    because = cause(answer["because"])
                    may = CAUSES.get(drawn["kind"], ())
                    elsewhere = because is not None
                    right = elsewhere and any(word in because for word in may)
                    wrong = elsewhere and not because.startswith("may:") and not right
                    if truth == "bbr" and because and "pacing" in because:
                        wrong = False
                    kind.cause += right
                    kind.wrong_cause += wrong
                    if wrong or given.all or unlimited and not right:
                        lines.append(f"{where}: {'WRONG CAUSE' if wrong else ''} unknown ({answer['because']}) [{flow['capture_point']}]")
        print(f"== {side}")
        if given.list or given.all:
            print("\n".join(lines))
        total, held = Kind(), Kind()
        for name, kind in sorted(kinds.items()):
            print(kind.line(name))
            total.join(kind)
            if name in UNLIMITED:
                held.join(kind)
        print(held.line("not window"))
        print(total.line("all"), "\n")
        everything.join(total)
    print(everything.line("everything"))


if __name__ == "__main__":
    main()
