#!/usr/bin/env python3
"""Builds the tests of all crates, and runs as many test programs at a time as there are cores.

    scripts/rust-tests.py [--jobs N] [WORD...]

cargo runs one test program after the other. Most tests wait for real sockets and timers, so the
cores are idle half of the time; every test works in its own network namespace, so that test
programs can run beside each other. With WORDs, only programs whose package or name contains one of
them run (and no documentation tests). Prints one line for each program, each test that was skipped
with the reason, and the whole output of each program that failed. Continues after a failure. Exit
status: 0 if all passed, 1 if a test failed, 2 if the build failed.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

CARGO = os.environ.get("CARGO", "cargo")
WORKSPACE = ["--workspace", "--locked", "--quiet"]
SKIPPED = re.compile(r"\bskipped: ")
PASSED = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)


class Program:
    """A command that runs tests, and the folder where cargo would run it."""

    def __init__(self, package, name, command, folder):
        self.package, self.name, self.command, self.folder = package, name, command, folder

    def __str__(self):
        return f"{self.package} {self.name}"


def build():
    """All test programs of the workspace, in the order in which cargo has built them."""
    command = [CARGO, "test", *WORKSPACE, "--no-run", "--message-format=json-render-diagnostics"]
    built = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        sys.exit(2)
    programs = []
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            folder = pathlib.Path(message["manifest_path"]).parent
            command = [message["executable"], "--quiet", "--show-output"]
            programs.append(Program(folder.name, message["target"]["name"], command, folder))
    return programs


def run(program):
    """Runs it to its end. Returns the status, the output, the duration and the CPU time in seconds.

    The CPU time includes processes that the program has started and waited for.
    """
    began = time.monotonic()
    # cargo sets these for a test, too.
    env = dict(os.environ, CARGO=CARGO, CARGO_MANIFEST_DIR=str(program.folder))
    started = subprocess.Popen(
        program.command, cwd=program.folder, env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )
    output = started.stdout.read()
    # `Popen.wait` would drop the resource usage.
    _, status, usage = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    return started.returncode, output, time.monotonic() - began, usage.ru_utime + usage.ru_stime


def counts(output):
    """Passed, failed and ignored tests: sums over all results in the output."""
    return [sum(map(int, column)) for column in zip(*PASSED.findall(output))] or [0, 0, 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="test programs that run at a time (default: the cores)")
    parser.add_argument("words", nargs="*", metavar="WORD", help="run only programs whose package or name contains a WORD")
    options = parser.parse_args()
    if options.jobs < 1:
        parser.error("--jobs: at least 1")

    programs = build()
    documentation = Program("workspace", "documentation", [CARGO, "test", *WORKSPACE, "--doc", "--", "--show-output"], pathlib.Path.cwd())
    if options.words:
        programs = [program for program in programs if any(word in str(program) for word in options.words)]
        if not programs:
            sys.exit(f"rust-tests: no test program's package or name contains {' or '.join(options.words)}")
    else:
        programs.append(documentation)

    failed, done, totals, cpu_s, printing = [], 0, [0, 0, 0], 0.0, threading.Lock()
    began = time.monotonic()

    def judge(program):
        nonlocal done, totals, cpu_s
        status, output, seconds, program_cpu_s = run(program)
        passed = counts(output)
        with printing:
            done += 1
            cpu_s += program_cpu_s
            totals = [a + b for a, b in zip(totals, passed)]
            verdict = f"FAILED ({'signal' if status < 0 else 'status'} {abs(status)})" if status else "ok"
            print(f"[{done}/{len(programs)}] {program}: {verdict}, {passed[0]} passed, {seconds:.1f} s, {program_cpu_s:.1f} s of CPU", flush=True)
            if status:
                failed.append(program)
                print(output, flush=True)
                return
            for line in output.splitlines():
                if SKIPPED.search(line):
                    print(f"    {line.strip()}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        try:
            list(pool.map(judge, programs))
        except KeyboardInterrupt:
            # The programs that run have received the signal, too, and end by themselves.
            pool.shutdown(cancel_futures=True)
            print("rust-tests: interrupted", file=sys.stderr)
            sys.exit(130)

    print(f"rust-tests: {totals[0]} passed, {totals[1]} failed, {totals[2]} ignored in {len(programs)} programs, "
          f"{time.monotonic() - began:.0f} s, {cpu_s:.0f} s of CPU")
    for program in failed:
        print(f"rust-tests: failed: {program}; again: scripts/rust-tests.py {program.name}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
