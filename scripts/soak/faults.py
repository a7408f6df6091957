"""The faults of the soak. Each fault is a method of `Faults`; its name is used to count, select
and display it."""

import collections
import json
import re
import signal
import subprocess
import time

from checks import account_of
from world import Failed

# After a kill, flows are unbounded within this time; then the windows need some round trips to
# grow.
FREE_WITHIN_S = 2.0
TO_GROW_S = 1.0
# Bytes that a flow must have acknowledged before its window is checked: a flow that is not
# scheduled cannot grow.
SHOWS_WITH = 200_000
# A killed recording lacks its last second; a busy machine may add another.
MAX_LOST_S = 2.0
# Response time limit for a client while other clients are slow.
ANSWER_WITHIN_S = 2.0
Socket = collections.namedtuple("Socket", "cwnd ssthresh acked_bytes retransmitted")
ACCOUNT = re.compile(r"seen (\d+) = kept (\d+) \+ lost (\d+)")


class Faults:
    """The target processes, the faults injected into them, and the results."""

    def __init__(self, soak):
        self.soak, self.world, self.random = soak, soak.world, soak.random
        self.files = 0
        self.daemon = self.recorder = self.file = None

    # --- the target processes ---

    def start_daemon(self):
        self.daemon = self.world.start("the daemon that is killed", self.soak.share_words("weak", "w"), "weak")
        self.daemon.wait_for("sharing;")
        self.world.remember(self.daemon)

    def start_recorder(self):
        self.files += 1
        self.file = self.world.folder / "disk" / f"{self.files}.arrows"
        self.recorder = self.world.start(
            "the recorder that is killed",
            [self.soak.yuzuri, "watch", f"netns:{self.world.name('weak')}", "--density", "ack", "--quiet", "--record", str(self.file)],
        )
        self.recorder.wait_for("watching")
        self.world.remember(self.recorder)

    def start(self):
        self.start_daemon()
        self.start_recorder()

    def mend(self):
        """Cleans up after a fault that failed: resumes everything, and restarts target processes
        that are gone."""
        for process in self.world.processes:
            process.signal_process(signal.SIGCONT)
        (self.world.folder / "disk" / "filler").unlink(missing_ok=True)
        for host in ("load", "weak"):
            self.world.inside(host, "ip", "link", "set", "eth0", "up")
        for helper in [p for p in self.world.processes if p.name.startswith(("slow", "garbage"))]:
            helper.end()
            self.world.processes.remove(helper)
        if not self.daemon.alive():
            self.world.processes.remove(self.daemon)
            self.start_daemon()
        if not self.recorder.alive():
            self._next_recording()

    def names(self):
        names = sorted(name for name in dir(self) if name.startswith("fault_"))
        return [name for name in names if self.soak.words.step_clock or name != "fault_clock_steps"]

    # --- the faults ---

    def fault_reader_stops(self):
        """Stops the readers of the monitor (SIGSTOP) for a while."""
        for process in (self.soak.watcher, self.recorder):
            process.signal_process(signal.SIGSTOP)
        time.sleep(self.random.uniform(0.5, 4))
        for process in (self.soak.watcher, self.recorder):
            process.signal_process(signal.SIGCONT)

    def fault_writer_stops(self):
        """Stops the traffic or a daemon (SIGSTOP) for a while."""
        process = self.random.choice([*self.soak.clients, self.soak.bulk, self.soak.daemon, self.daemon])
        process.signal_process(signal.SIGSTOP)
        time.sleep(self.random.uniform(0.5, 4))
        process.signal_process(signal.SIGCONT)

    def fault_daemon_killed(self):
        """kill -9: the bounds expire by themselves, and the next daemon takes over the flows."""
        bounds = self._bounded()
        if not bounds:
            self.soak.count("bounds not seen before a kill")
        self.daemon.child.kill()
        killed = time.monotonic()
        self.daemon.child.wait()
        if bounds:
            took, last = self._free(bounds, killed)
            self.soak.note("bounds end after a kill, s", took)
            if took is None or took > FREE_WITHIN_S + TO_GROW_S:
                self.soak.note("windows that stayed within their bound", last)
                self.soak.fail("bounds end after a kill", f"still bounded {took if took is not None else 30:.1f} s after the kill: {last}")
        self.world.processes.remove(self.daemon)
        self.start_daemon()

    def fault_recorder_killed(self):
        """kill -9: the recording is complete except for its last second."""
        self.recorder.child.kill()
        killed_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self.recorder.child.wait()
        rows = self._rows((0, 1))
        last_ns = max((row["mono_ns"] for row in rows), default=0)
        lost_s = (killed_ns - last_ns) / 1e9
        self.soak.note("lost of a killed recording, s", lost_s)
        if lost_s > MAX_LOST_S:
            self.soak.fail("recordings of killed recorders", f"{self.file.name}: the last {lost_s:.1f} s are missing" if rows else f"{self.file.name} has no row")
        self._next_recording()

    def fault_recorder_ends(self):
        """Ctrl-C: the account on the terminal equals the account in the file."""
        self._end_recording()
        self._next_recording()

    def fault_disk_full(self):
        """The recording's disk is full for a while."""
        filler = self.world.folder / "disk" / "filler"
        with filler.open("wb", buffering=0) as out:
            try:
                while True:
                    out.write(bytes(1 << 20))
            except OSError:
                pass
            time.sleep(self.random.uniform(2, 6))
        # Sometimes stop the recorder while the disk is still full.
        if self.random.random() < 0.3:
            self._end_recording()
            filler.unlink()
        else:
            filler.unlink()
            time.sleep(3)
            self._end_recording()
        self._next_recording()

    def fault_interface_down(self):
        """The link goes down and up again."""
        host = self.random.choice(["load", "weak"])
        self.world.inside(host, "ip", "link", "set", "eth0", "down")
        time.sleep(self.random.uniform(0.5, 3))
        self.world.inside(host, "ip", "link", "set", "eth0", "up")

    def fault_clock_steps(self):
        """The wall clock of the whole machine jumps by up to an hour, and back. Only on request."""
        wall, steady = time.time(), time.monotonic()
        jump = self.random.choice([-1, 1]) * self.random.uniform(1, 3600)
        time.clock_settime(time.CLOCK_REALTIME, wall + jump)
        try:
            time.sleep(self.random.uniform(1, 5))
        finally:
            time.clock_settime(time.CLOCK_REALTIME, wall + time.monotonic() - steady)

    def fault_garbage(self):
        """Sends noise to the group's port."""
        far, near = self.random.choice([("sink", "load"), ("strong", "weak")])
        to = self.random.choice([self.world.address(near), self.world.address(near, v6=True)])
        helper = self.world.helper(far, "garbage", to, self.soak.port, 2000, self.random.getrandbits(32))
        helper.child.wait(60)
        self.world.processes.remove(helper)
        self.soak.count("malformed messages", 2000)

    def fault_slow_clients(self):
        """A hundred clients send one byte every 0.8 s to the metrics and to the page; other clients
        must still be answered."""
        page = int(self.soak.page.root.rsplit(":", 1)[1].split("/")[0])
        helpers = [
            self.world.helper("load", "slow", "127.0.0.1", self.soak.metrics_port, 100, 8),
            self.world.helper(None, "slow", "127.0.0.1", page, 100, 8),
        ]
        for helper in helpers:
            helper.wait_for("ready", stdout=True)
        for what, ask in (("status", lambda: self.soak.status("load", ANSWER_WITHIN_S)), ("page", lambda: self.soak.page.session(ANSWER_WITHIN_S))):
            began = time.monotonic()
            try:
                ask()
                self.soak.note(f"answer of the {what} under slow clients, s", time.monotonic() - began)
            except (OSError, Failed, subprocess.TimeoutExpired) as error:
                self.soak.fail(f"answers under slow clients ({what})", f"none within {ANSWER_WITHIN_S:.0f} s: {error}")
        for helper in helpers:
            helper.end()
            self.world.processes.remove(helper)

    # --- results ---

    def _sockets(self):
        """Cookie -> cwnd, ssthresh, bytes acknowledged and segments retransmitted of the bulk
        flows."""
        found = {}
        for line in self.world.inside("weak", "ss", "-HtneiO", "state", "established").splitlines():
            cookie, cwnd = re.search(r" sk:([0-9a-f]+)", line), re.search(r" cwnd:(\d+)", line)
            figure = lambda pattern: int(match[1]) if (match := re.search(pattern, line)) else 0
            if cookie and cwnd:
                found[int(cookie[1], 16)] = Socket(
                    int(cwnd[1]), figure(r" ssthresh:(\d+)"), figure(r" bytes_acked:(\d+)"), figure(r" retrans:\d+/(\d+)")
                )
        return found

    def _bounded(self):
        """Cookie -> upper bound, once all flows comply with theirs."""
        end = time.monotonic() + 20
        while time.monotonic() < end:
            flows = [f for i in self.soak.status("weak", 5)["interfaces"] for f in i["flows"]]
            bounds = {f["id"]: f["bound"]["upper"] for f in flows if f["obeys"] and f["bound"]["upper"]}
            sockets = self._sockets()
            if len(bounds) == self.soak.BULK_FLOWS and all(id in sockets and sockets[id].cwnd <= upper for id, upper in bounds.items()):
                return bounds
            time.sleep(0.25)
        return {}

    def _free(self, bounds, killed):
        """Seconds until every window exceeded its former bound, and the sockets whose window did
        not. `None`: never within 30 s.

        A bound in force holds the window at the bound. A window below it is held by its congestion
        control: after a loss, CUBIC at a small window needs seconds to grow. The check waits for such
        a flow and for a stalled one. A flow that lost segments after the kill proves nothing, and is
        only counted.
        """
        at_kill = self._sockets()
        beyond, at_due = set(), {}
        bound = {}
        while (waited := time.monotonic() - killed) < 30:
            sockets = self._sockets()
            beyond |= {id for id, upper in bounds.items() if id not in sockets or sockets[id].cwnd > upper}
            lost = {id for id in bounds if id in sockets and id in at_kill and sockets[id].retransmitted > at_kill[id].retransmitted}
            bound = {id: (bounds[id], sockets[id]) for id in bounds if id not in beyond and id not in lost and id in sockets}
            if not bound:
                if unclear := len(lost - beyond):
                    self.soak.count("windows that a loss reduced before they were seen beyond their bound", unclear)
                if waited > FREE_WITHIN_S + TO_GROW_S:
                    self.soak.count("kills after which a window below its bound, or a stalled flow, had to be waited for")
                return min(waited, FREE_WITHIN_S + TO_GROW_S), {}
            if waited > FREE_WITHIN_S + TO_GROW_S:
                for id in (id for id in bound if sockets[id].cwnd == bounds[id]):
                    if sockets[id].acked_bytes - at_due.setdefault(id, sockets[id].acked_bytes) > SHOWS_WITH:
                        return waited, self._described(bound)
            time.sleep(0.05)
        return None, self._described(bound)

    @staticmethod
    def _described(bound):
        return {f"{id:x}": {"upper": upper, **socket._asdict()} for id, (upper, socket) in bound.items()}

    def _rows(self, codes):
        """The recording's rows, converted by the program itself."""
        output = subprocess.run([self.soak.yuzuri, "convert", str(self.file), "-", "--to", "jsonl"], capture_output=True, text=True, timeout=300)
        if output.returncode not in codes:
            self.soak.fail("recordings open", f"converting {self.file.name} ended with {output.returncode}: {output.stderr.strip()[:200]}")
        return [json.loads(line) for line in output.stdout.splitlines()]

    def _end_recording(self):
        code = self.recorder.end(signal.SIGINT)
        self.compare("the recorder", self.recorder, code, self._rows((0,)))

    def compare(self, who, process, code, rows):
        """Checks that the last account on the terminal, the file and the exit code agree."""
        said = [match for match in map(ACCOUNT.search, process.lines) if match]
        if code is None or not said:
            self.soak.fail("one account everywhere", f"{who} ended with {code} and said no account: {process.said()[-300:]}")
            return
        screen = [int(figure) for figure in said[-1].groups()]
        _, file = account_of(rows)
        self.soak.count("accounts compared")
        self.soak.note("records lost in a recording", screen[2])
        if screen[0] != screen[1] + screen[2]:
            self.soak.fail("one account everywhere", f"{who}: seen {screen[0]} is not kept {screen[1]} + lost {screen[2]}")
        if screen != file:
            self.soak.fail("one account everywhere", f"{who}: seen, kept, lost {screen} on the screen, {file} in the file")

    def _next_recording(self):
        self.world.processes.remove(self.recorder)
        self.file.unlink(missing_ok=True)
        self.start_recorder()
