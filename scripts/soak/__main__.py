"""Runs Yuzuri for hours with many flows and random faults, and checks continuously that it
behaves correctly: make soak.

Three processes run throughout: `watch` with page and recording, `share` on 20,000 flows that open
and close, and a second group member. Other processes are killed and restarted. Everything runs in
separate network namespaces, which are removed at the end.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from checks import DAY_S, Ghosts, Page, judge_slope, open_flows, slope
from faults import Faults
from world import Failed, World, run

TREE = pathlib.Path(__file__).resolve().parent.parent.parent
MAX_MB_PER_DAY = 1.0
SAMPLE_EVERY_S, LOOK_EVERY_S, SAY_EVERY_S = 5, 30, 60
# Time limit for a flow that the kernel has removed to disappear from every table.
GHOST_TIMEOUT_S = 60
# Processes are often limited to 20,000 descriptors; this leaves a margin.
FLOWS_PER_PROCESS = 8000
# Mean lifetime of a connection.
FLOW_LASTS_S = 200
# Tables and histories fill first: trends are computed over the last half of the run, from this time
# on at the earliest, and over at least this duration.
WARM_UP_S, MIN_TREND_S = 600, 600
# The unit's TimeoutStopSec.
MAX_END_S = 5
# The figures that faults record.
BOUNDS, LOST, ENDS = "bounds end after a kill, s", "lost of a killed recording, s", "SIGTERM until the end, s"
STATUS, PAGE = "answer of the status under slow clients, s", "answer of the page under slow clients, s"
UNTESTED = {
    "wall-clock steps": "CLOCK_REALTIME is the whole machine's; --step-clock (make soak STEP_CLOCK=1) steps it on a machine of one's own",
    "power loss": "a test of the recordings: cargo test -p yuzuri-trace --test recording_crash",
}


class Soak:
    """One soak run."""

    BULK_FLOWS = 4

    def __init__(self, words):
        self.words, self.yuzuri = words, str(words.yuzuri)
        self.random = random.Random(words.seed)
        self.world = World()
        self.port, self.metrics_port = 48770, 9470
        self.samples = {}
        self.failures, self.counts, self.notes = {}, {}, {}
        self.ghosts = {"page": Ghosts(GHOST_TIMEOUT_S), "share status": Ghosts(GHOST_TIMEOUT_S)}
        self.flows = []
        self.clients = []
        self.began = time.monotonic()
        # Read now: hours later the tree may be at another commit.
        self.commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=TREE, capture_output=True, text=True).stdout.strip()

    # --- records ---

    def fail(self, check, what):
        self.failures.setdefault(check, []).append(what)
        self.say(f"FAILED: {check}: {what}")

    def count(self, what, number=1):
        self.counts[what] = self.counts.get(what, 0) + number

    def note(self, what, figure):
        self.notes.setdefault(what, []).append(figure)

    def say(self, text):
        print(f"soak: {time.monotonic() - self.began:7.0f} s: {text}", file=sys.stderr, flush=True)

    # --- the processes ---

    def share_words(self, host, letter):
        folder = self.world.folder
        return [
            self.yuzuri, "share", "--interface", "eth0", "--group", f"soak {host}", "--key-file", str(folder / "key"),
            "--control", self.world.control_prefix() + letter, "--port", str(self.port),
            "--runtime", str(folder / f"run-{letter}"), "--state", str(folder / f"state-{letter}"),
        ]  # fmt: skip

    def status(self, host, seconds, *more):
        letter = {"load": "l", "weak": "w"}[host]
        words = [self.yuzuri, "share", "status", "--json", "--runtime", str(self.world.folder / f"run-{letter}"), *more]
        output = subprocess.run(words, capture_output=True, text=True, timeout=seconds)
        if output.returncode != 0:
            raise Failed(output.stderr.strip())
        return json.loads(output.stdout)

    def start(self):
        world = self.world.build()
        run(self.yuzuri, "share", "key", str(world.folder / "key"))
        groups = -(-self.words.flows // FLOWS_PER_PROCESS)
        for host, group in [("strong", 0), *(("sink", group) for group in range(groups))]:
            server = world.helper(host, "server", group, world.address(host), world.address(host, v6=True))
            server.wait_for("ready", stdout=True)
        self.daemon = world.start("share", self.share_words("load", "l") + ["--metrics", f"127.0.0.1:{self.metrics_port}"], "load")
        self.daemon.wait_for("sharing;")
        self.member = world.start("second member", self.share_words("weak", "s"), "strong")
        self.member.wait_for("sharing;")
        self.recording = self.words.folder / "soak.arrows"
        self.watcher = world.start(
            "watch",
            [self.yuzuri, "watch", f"netns:{world.name('load')}", "--web", "127.0.0.1:0", "--record", str(self.recording), "--overwrite"],
        )
        self.watcher.wait_for("watching")
        self.watcher.wait_for("the page is at")
        url = next(line.split()[-1] for line in self.watcher.lines if "the page is at" in line)
        self.page = Page(url)
        self.steady = {"watch": self.watcher, "share": self.daemon, "second member": self.member}
        for process in self.steady.values():
            world.remember(process)
        to = [world.address("sink"), world.address("sink", v6=True)]
        for group in range(groups):
            flows = self.words.flows * (group + 1) // groups - self.words.flows * group // groups
            figures = (group, flows, self.words.writes / groups, flows / FLOW_LASTS_S, self.words.seed + group)
            self.clients.append(world.helper("load", "client", *figures, *to))
        self.bulk = world.helper("weak", "bulk", world.address("strong"), self.BULK_FLOWS)
        self.bulk.wait_for("ready", stdout=True)
        self.faults = Faults(self)
        self.faults.start()
        end = time.monotonic() + 300
        # At any time some connections are between their end and the start of the next one.
        while self.traffic().get("open", 0) < 0.98 * self.words.flows:
            if time.monotonic() > end:
                raise Failed(f"the traffic has {self.traffic()} after 300 s instead of {self.words.flows} flows")
            time.sleep(0.5)

    def traffic(self):
        """Sums the counters of all clients."""
        all_of = {}
        for client in self.clients:
            try:
                for what, figure in json.loads(client.last_line).items():
                    all_of[what] = all_of.get(what, 0) + figure
            except ValueError:
                pass
        return all_of

    # --- periodic checks ---

    def sample(self, now):
        for name, process in self.steady.items():
            if figures := process.figures():
                self.samples.setdefault(name, []).append({"s": round(now - self.began, 1), **figures})
            elif name not in self.failures:
                self.fail(name, f"it ended by itself: {process.said()[-300:]}")
        for process in (self.faults.daemon, self.faults.recorder):
            if not process.alive():
                self.fail(process.name, f"it ended by itself: {process.said()[-300:]}")
                self.faults.mend()
        # Without traffic there is nothing to check.
        for process in (*self.clients, self.bulk):
            if not process.alive():
                raise Failed(f"{process.name} ended by itself: {process.said()[-300:]}")

    def look(self, now):
        # Read the tables first: a flow that opens after them is not a ghost.
        try:
            _, rows, account = self.page.look()
            self.ghosts["page"].look(now, open_flows(rows), self.world.kernel_flows("load"))
            if None not in (account["seen"], account["kept"], account["lost"]):
                self.note("records seen", account["seen"])
                if account["seen"] < account["kept"] + account["lost"]:
                    self.fail("account while it runs", f"seen {account['seen']} is below kept {account['kept']} + lost {account['lost']}")
        except OSError as error:
            self.fail("page answers", str(error))
        try:
            status = self.status("load", 20, "--all")
            shown = {f["id"] for i in status["interfaces"] for f in i["flows"]}
            self.ghosts["share status"].look(now, shown, self.world.kernel_flows("load"))
            self.flows.append(len(shown))
        except (Failed, ValueError, subprocess.TimeoutExpired) as error:
            self.fail("status answers", str(error))

    def progress(self, left_s):
        last = {name: samples[-1] for name, samples in self.samples.items()}
        memory = ", ".join(f"{name} {figures['rss_kb'] / 1e3:.1f} MB" for name, figures in last.items())
        faults = sum(n for name, n in self.counts.items() if name.startswith("fault: "))
        failed = sum(map(len, self.failures.values()))
        self.say(f"{self.traffic().get('open', 0)} flows, {self.traffic().get('opened', 0)} opened, {faults} faults, {failed} failures; {memory}; {left_s / 60:.0f} min to go")

    def run(self, seconds):
        end = time.monotonic() + seconds
        # Each fault occurs once, in random order, before any is repeated.
        deck = []
        due = dict.fromkeys(("sample", "look", "say"), 0.0)
        fault_due = time.monotonic() + 5
        while (now := time.monotonic()) < end:
            if now >= due["sample"]:
                due["sample"] = now + SAMPLE_EVERY_S
                self.sample(now)
            if now >= due["look"]:
                due["look"] = now + LOOK_EVERY_S
                self.look(now)
            if now >= due["say"]:
                due["say"] = now + SAY_EVERY_S
                self.progress(end - now)
            if now >= fault_due:
                if not deck:
                    deck = self.faults.names()
                    self.random.shuffle(deck)
                self.strike(deck.pop())
                fault_due = time.monotonic() + self.random.uniform(2, 12)
            time.sleep(0.2)

    def strike(self, name):
        """Injects one fault. Records its failures, and the soak continues."""
        words = name.removeprefix("fault_").replace("_", " ")
        self.count(f"fault: {words}")
        try:
            getattr(self.faults, name)()
        except (Failed, OSError, ValueError, subprocess.SubprocessError) as error:
            self.fail(f"during the fault '{words}'", str(error))
            self.faults.mend()

    def finish(self):
        """Stops the traffic, compares the final accounts, and stops all processes in order."""
        self.say("the traffic ends")
        for client in self.clients:
            client.end()
        self.bulk.end()
        time.sleep(3)
        try:
            account = self.page.look()[2]
            if account["seen"] != account["kept"] + account["lost"]:
                self.fail("one account everywhere", f"the page, when all is quiet: seen {account['seen']}, kept {account['kept']}, lost {account['lost']}")
        except OSError as error:
            self.fail("page answers", str(error))
        self.faults._end_recording()
        code = self.watcher.end(signal.SIGINT, 60)
        self.faults.file = self.recording
        self.faults.compare("watch", self.watcher, code, (row for row in self.rows_of_accounts()))
        for name, process in (("share", self.daemon), ("second member", self.member), ("the daemon that is killed", self.faults.daemon)):
            began = time.monotonic()
            code = process.end(signal.SIGTERM, 20)
            took_s = time.monotonic() - began
            self.note(ENDS, took_s)
            if code != 0 or took_s > MAX_END_S:
                self.fail("daemons end", f"{name} ended with {code} after {took_s:.1f} s: {process.said()[-300:]}")

    def rows_of_accounts(self):
        """Yields the account rows of a recording, line by line, because it contains hours of
        data."""
        words = [self.yuzuri, "convert", str(self.recording), "-", "--to", "jsonl"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
            for line in child.stdout:
                if '"kind":"account"' in line:
                    yield json.loads(line)
        if child.returncode != 0:
            self.fail("recordings open", f"converting {self.recording} ended with {child.returncode}")

    # --- the report ---

    def report(self, left, whole):
        rows = []

        def row(check, figure, wanted, result):
            rows.append({"check": check, "figure": figure, "wanted": wanted, "result": result})

        for name, samples in self.samples.items():
            times = [s["s"] for s in samples]
            settled = [s for s in samples if s["s"] >= times[-1] / 2]
            found = slope([s["s"] for s in settled], [s["rss_kb"] / 1e3 for s in settled])
            figure = f"{samples[-1]['rss_kb'] / 1e3:.1f} MB at the end, too short for a trend"
            is_short = times[-1] / 2 < max(WARM_UP_S, MIN_TREND_S)
            if is_short:
                found = None
            if found:
                median, low, high = (f * DAY_S for f in found)
                figure = f"{median:+.2f} MB a day ({low:+.2f} to {high:+.2f}, 95 %), {settled[-1]['rss_kb'] / 1e3:.1f} MB at the end"
            result = judge_slope(found, MAX_MB_PER_DAY)
            row(f"resident memory of {name}", figure, f"below {MAX_MB_PER_DAY:.0f} MB a day", result)
            for what in ("descriptors", "threads"):
                # A process that is being queried briefly has more: take the minimum of each sixth
                # of the time.
                sixths = [settled[len(settled) * n // 6 : len(settled) * (n + 1) // 6] for n in range(6)]
                least = [min(s[what] for s in sixth) for sixth in sixths if sixth]
                grows = len(least) == 6 and least[-1] > least[0] and least == sorted(least)
                # One additional resource at the end is not growth; a short run cannot decide it.
                result = "undecided" if len(least) < 6 or (grows and is_short) else "failed" if grows else "held"
                row(f"{what} of {name}", " ".join(map(str, least)) or "too few samples", "no growth", result)
        for name, ghosts in self.ghosts.items():
            figure = f"{len(ghosts.found)} in {ghosts.looks} comparisons of {ghosts.compared} rows (at most {ghosts.most} closes in progress)"
            row(f"ghosts: {name} beside the kernel's sockets", figure, "0", "failed" if ghosts.found else "held" if ghosts.looks else "undecided")
        most = lambda what: max((f for f in self.notes.get(what, []) if f is not None), default=0)
        number = lambda what: len(self.notes.get(what, []))
        compared = self.counts.get("accounts compared", 0)
        lost = sum(self.notes.get("records lost in a recording", []))
        checks = (
            ("one account everywhere", compared, f"{compared} recordings, {lost} records lost and reported", "equal"),
            ("bounds end after a kill", number(BOUNDS), f"{number(BOUNDS)} kills, {most(BOUNDS):.2f} s at most", "2 s, and 1 s for the window to grow"),
            ("recordings of killed recorders", number(LOST), f"{number(LOST)} kills, the last {most(LOST):.2f} s are missing at most", "1 s, and 1 s for a busy machine"),
            ("answers under slow clients (status)", number(STATUS), f"{number(STATUS)} answers, {most(STATUS):.2f} s at most", "2 s"),
            ("answers under slow clients (page)", number(PAGE), f"{number(PAGE)} answers, {most(PAGE):.2f} s at most", "2 s"),
            ("daemons end", number(ENDS), f"{number(ENDS)} ended, {most(ENDS):.2f} s at most", "exit code 0 within 5 s"),
        )
        for check, looked, figure, wanted in checks:
            bad = self.failures.get(check, [])
            figure += f"; {bad[0]}" + (f" (and {len(bad) - 1} more)" if len(bad) > 1 else "") if bad else ""
            row(check, figure, wanted, "failed" if bad else "held" if looked else "undecided")
        named = {check for check, *_ in checks}
        for check, what in self.failures.items():
            if check not in named:
                row(check, what[0] + (f" (and {len(what) - 1} more)" if len(what) > 1 else ""), "no failure", "failed")
        row("left behind", ", ".join(left) or "nothing", "nothing", "failed" if left else "held")
        for what, why in UNTESTED.items():
            if what == "wall-clock steps" and self.words.step_clock:
                continue
            row(what, f"not here: {why}", "", "undecided")
        report = {
            "seed": self.words.seed, "hours": self.words.hours, "whole": whole, "seconds": round(time.monotonic() - self.began),
            "flows": self.words.flows, "flows_shown": statistics.median(self.flows) if self.flows else None, "traffic": self.traffic(),
            "commit": self.commit,
            "kernel": os.uname().release, "checks": rows, "counts": self.counts, "notes": self.notes, "failures": self.failures, "samples": self.samples,
        }  # fmt: skip
        self.words.json.write_text(json.dumps(report, indent=1) + "\n")
        print(f"\nSeed {self.words.seed}, {report['seconds'] / 3600:.2f} h, {self.words.flows} flows, Linux {report['kernel']}" + ("" if whole else "; **ended early**"))
        print("\n| check | figure | wanted | result |\n|---|---|---|---|")
        for r in rows:
            print(f"| {r['check']} | {r['figure']} | {r['wanted']} | {r['result']} |".replace("\n", " "))
        print("\n" + ", ".join(f"{name.removeprefix('fault: ')} {n}" for name, n in sorted(self.counts.items())))
        print(f"samples and notes: {self.words.json}")
        return any(r["result"] == "failed" for r in rows)


def main():
    words = argparse.ArgumentParser(prog="soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--hours", type=float, default=24, help="how long, after the flows are open [24]")
    words.add_argument("--flows", type=int, default=20000, help="connections [20000]")
    words.add_argument("--writes", type=float, default=1000, help="writes a second of all connections; each is a record of 30 bytes [1000]")
    words.add_argument("--seed", type=int, default=None, help="of the faults and the traffic [drawn, and printed]")
    words.add_argument("--step-clock", action="store_true", help="also step the wall clock of this machine, for everybody on it")
    words.add_argument("--yuzuri", type=pathlib.Path, default=TREE / "target/release/yuzuri", help="the program")
    words.add_argument("--folder", type=pathlib.Path, default=TREE / "target/soak", help="of the long recording and the report")
    words = words.parse_args()
    if os.geteuid() != 0:
        sys.exit("soak: network namespaces and the kernel monitor need root: run it as root")
    if not words.yuzuri.exists():
        sys.exit(f"soak: {words.yuzuri} is not there: make yuzuri")
    words.yuzuri = words.yuzuri.resolve()
    words.seed = words.seed if words.seed is not None else random.SystemRandom().getrandbits(32)
    words.folder.mkdir(parents=True, exist_ok=True)
    words.json = words.folder / "soak.json"
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    soak = Soak(words)
    soak.say(f"seed {words.seed}, {words.hours} h, {words.flows} flows; Ctrl-C ends it and cleans up")
    whole, broken = False, None
    try:
        soak.start()
        soak.say("all flows are open")
        soak.run(words.hours * 3600)
        soak.finish()
        whole = True
    except KeyboardInterrupt:
        soak.say("stopped: cleaning up")
    except (Failed, OSError, subprocess.SubprocessError) as error:
        broken = str(error)
        soak.fail("the soak itself", broken)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        left = soak.world.clear()
    failed = soak.report(left, whole)
    words.folder.joinpath("soak.arrows").unlink(missing_ok=True)
    sys.exit(1 if failed else 0 if whole else 130)


main()
