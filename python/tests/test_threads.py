"""Reading a file neither blocks other threads nor Ctrl-C. The files are pipes, which the tests
control."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def test_other_threads_run_meanwhile(tmp_path: Path, reno: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # The reader waits for the main thread: if it held the GIL, both would deadlock.
    program = """
import pathlib, sys, threading, yuzuri
pipe, capture = map(pathlib.Path, sys.argv[1:])
flows = []
reader = threading.Thread(target=lambda: flows.extend(yuzuri.identify(pipe)))
reader.start()
pipe.write_bytes(capture.read_bytes())
reader.join()
print([flow.name for flow in flows] == [flow.name for flow in yuzuri.identify(capture)])
"""
    done = subprocess.run([sys.executable, "-c", program, pipe, reno], stdout=subprocess.PIPE, text=True, timeout=120)
    assert done.stdout == "True\n"


@pytest.mark.parametrize("call", ["identify(pipe)", "table([pipe], jobs=1)", "table([pipe, other], jobs=2)"])
def test_ctrl_c(tmp_path: Path, reno: Path, call: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = f"""
import signal, sys, yuzuri
# Whoever started the tests may ignore it (a shell's background jobs do).
signal.signal(signal.SIGINT, signal.default_int_handler)
pipe, other = sys.argv[1:]
try:
    yuzuri.{call}
except KeyboardInterrupt:
    print("interrupted")
"""
    child = subprocess.Popen([sys.executable, "-c", program, pipe, reno], stdout=subprocess.PIPE, text=True)
    capture = reno.read_bytes()
    deadline = time.monotonic() + 120
    with pytest.raises(BrokenPipeError), open(pipe, "wb", buffering=0) as out:
        out.write(capture)
        child.send_signal(signal.SIGINT)
        # A capture without end: only the signal can end the child.
        while time.monotonic() < deadline:
            out.write(capture[24:])
    out, _ = child.communicate(timeout=60)
    assert out == "interrupted\n"
    assert child.returncode == 0
