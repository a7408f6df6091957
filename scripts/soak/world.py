"""The soak's namespaces and processes, and their removal."""

import ctypes
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
# linux/bpf.h: enum bpf_cmd.
NEXT_ID = {"prog_id": 11, "map_id": 12, "link_id": 31}
LOAD = pathlib.Path(__file__).with_name("load.py")


class Failed(Exception):
    """A precondition of the soak failed."""


def run(*words):
    output = subprocess.run(words, capture_output=True, text=True)
    if output.returncode != 0:
        raise Failed(f"{' '.join(words)}: {output.stderr.strip() or output.returncode}")
    return output.stdout


class Process:
    """A child process that ends with this one, and its output."""

    def __init__(self, name, words, namespace=None, stdout=False):
        self.name = name
        words = ["ip", "netns", "exec", namespace, *words] if namespace else list(words)
        # A separate process group: Ctrl-C on the terminal goes to the soak, which then stops its
        # children in order.
        self.child = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if stdout else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            preexec_fn=lambda: (os.setpgid(0, 0), LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)),
        )
        self.lines, self.last_line = [], ""
        self.readers = [threading.Thread(target=self._read, args=(self.child.stderr, True), daemon=True)]
        if stdout:
            self.readers.append(threading.Thread(target=self._read, args=(self.child.stdout, False), daemon=True))
        for reader in self.readers:
            reader.start()

    def _read(self, stream, keep):
        for line in stream:
            self.last_line = line.rstrip("\n")
            if keep:
                self.lines.append(self.last_line)
                del self.lines[:-200]

    @property
    def pid(self):
        return self.child.pid

    def said(self):
        return "\n".join(self.lines)

    def wait_for(self, words, seconds=60, stdout=False):
        """Waits until the process prints this; fails if it exits first."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if (words in self.last_line) if stdout else (words in self.said()):
                return
            if self.child.poll() is not None:
                break
            time.sleep(0.05)
        raise Failed(f"{self.name} did not say '{words}' within {seconds} s: {self.said() or 'it said nothing'}")

    def alive(self):
        return self.child.poll() is None

    def signal_process(self, number):
        if self.alive():
            self.child.send_signal(number)

    def end(self, number=signal.SIGTERM, seconds=30):
        """Stops the process. Returns the exit code, or `None` if it had to be killed."""
        self.signal_process(signal.SIGCONT)
        self.signal_process(number)
        try:
            code = self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            code = None
        for reader in self.readers:
            reader.join(5)
        return code

    def figures(self):
        """Resident memory (kB), descriptors and threads; `None` if the process is gone."""
        try:
            status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
            number = lambda field: int(re.search(rf"^{field}:\s+(\d+)", status, re.M)[1])
            return {"rss_kb": number("VmRSS"), "anon_kb": number("RssAnon"), "threads": number("Threads"), "descriptors": len(os.listdir(f"/proc/{self.pid}/fd"))}
        except (OSError, TypeError):
            return None

    def bpf_ids(self):
        """The process's BPF objects, from its descriptors."""
        found = set()
        for file in pathlib.Path(f"/proc/{self.pid}/fdinfo").glob("*"):
            try:
                text = file.read_text()
            except OSError:
                continue
            # A link also names its program.
            for kind in ("link_id", "map_id", "prog_id"):
                if match := re.search(rf"^{kind}:\s*(\d+)", text, re.M):
                    found.add((kind, int(match[1])))
                    break
        return found


def bpf_there():
    """Ids of all programs, maps and links in the kernel."""
    there = set()
    for kind, command in NEXT_ID.items():
        attribute = (ctypes.c_uint32 * 32)()
        while LIBC.syscall(SYS_BPF, command, ctypes.byref(attribute), ctypes.sizeof(attribute)) == 0:
            attribute[0] = attribute[1]
            there.add((kind, attribute[0]))
    return there


def controls():
    return pathlib.Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()


class World:
    """Two pairs of namespaces: `load` and `sink` for the many flows, `weak` and `strong` for the
    processes that are killed."""

    PAIRS = (("load", "sink", 91), ("weak", "strong", 92))

    def __init__(self):
        self.base = f"yzk{os.getpid()}"
        self.processes = []
        self.bpf = set()
        self.folder = pathlib.Path(f"/run/{self.base}")
        self.mounted = False

    def name(self, host):
        return f"{self.base}-{host}"

    @staticmethod
    def address(host, v6=False):
        net, number = {"load": (91, 1), "sink": (91, 2), "weak": (92, 1), "strong": (92, 2)}[host]
        return f"fd{net}::{number}" if v6 else f"10.{net}.0.{number}"

    def build(self):
        self.folder.mkdir(mode=0o700)
        for near, far, net in self.PAIRS:
            for host in (near, far):
                run("ip", "netns", "add", self.name(host))
                run("ip", "-n", self.name(host), "link", "set", "lo", "up")
            run("ip", "link", "add", "eth0", "netns", self.name(near), "type", "veth", "peer", "name", "eth0", "netns", self.name(far))
            for number, host in enumerate((near, far), 1):
                place = ["ip", "-n", self.name(host)]
                self.inside(host, "sysctl", "-qw", "net.ipv4.ip_local_port_range=10000 65000", "net.ipv6.conf.all.keep_addr_on_down=1", "net.core.somaxconn=4096", "net.ipv4.tcp_max_syn_backlog=8192")
                run(*place, "addr", "add", f"10.{net}.0.{number}/24", "brd", "+", "dev", "eth0")
                run(*place, "addr", "add", f"fd{net}::{number}/64", "dev", "eth0", "nodad")
                run(*place, "link", "set", "eth0", "up")
        # Where bounds are checked, the link is slow and its queue holds 100 ms, so that an
        # unbounded window fills it.
        for host in ("weak", "strong"):
            run("tc", "-n", self.name(host), "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "20mbit", "burst", "10240", "limit", "250000")
        disk = self.folder / "disk"
        disk.mkdir()
        run("mount", "-t", "tmpfs", "-o", "size=32m,mode=0700", "yuzuri-soak", str(disk))
        self.mounted = True
        return self

    def inside(self, host, *words):
        return run("ip", "netns", "exec", self.name(host), *words)

    def start(self, name, words, host=None, stdout=False):
        process = Process(name, words, self.name(host) if host else None, stdout)
        self.processes.append(process)
        return process

    def helper(self, host, *words, stdout=True):
        return self.start(f"{words[0]} in {host}", [sys.executable, "-u", str(LOAD), *map(str, words)], host, stdout)

    def remember(self, process):
        """Records a process's BPF objects, to check later that they are gone."""
        self.bpf |= process.bpf_ids()

    def kernel_flows(self, host):
        """Cookies of the TCP connections in a namespace."""
        found = set()
        for line in self.inside(host, "ss", "-Htne", "state", "connected").splitlines():
            if match := re.search(r" sk:([0-9a-f]+)", line):
                found.add(int(match[1], 16))
        return found

    def clear(self):
        """Stops and removes everything. Returns what could not be removed."""
        left = []
        for process in reversed(self.processes):
            if process.alive() and process.end() is None:
                left.append(f"{process.name} had to be killed")
        if self.mounted:
            output = subprocess.run(["umount", str(self.folder / "disk")], capture_output=True, text=True)
            if output.returncode != 0:
                left.append(f"umount: {output.stderr.strip()}")
        names = [self.name(host) for pair in self.PAIRS for host in pair[:2]]
        for name in names:
            if pathlib.Path(f"/run/netns/{name}").exists():
                subprocess.run(["ip", "netns", "del", name], capture_output=True)
        left += [f"namespace {name}" for name in names if pathlib.Path(f"/run/netns/{name}").exists()]
        subprocess.run(["rm", "-rf", "--one-file-system", str(self.folder)], capture_output=True)
        if self.folder.exists():
            left.append(f"folder {self.folder}")
        # The kernel frees objects and the last connections shortly after their last use, not
        # immediately.
        end = time.monotonic() + 60
        while (objects := self.bpf & bpf_there()) and time.monotonic() < end:
            time.sleep(0.5)
        left += [f"BPF {kind} {number}" for kind, number in sorted(objects)]
        left += [f"congestion control {name}" for name in controls() if name.startswith(self.control_prefix())]
        return left

    def control_prefix(self):
        return f"yk{os.getpid() % 1000000}"
