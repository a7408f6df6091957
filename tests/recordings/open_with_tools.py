#!/usr/bin/env python3
"""Reads recordings with pandas, Polars and DuckDB, without Yuzuri's code.

    open_with_tools.py WRITER

WRITER is the built example `recording_writer` of yuzuri-trace, whose values follow from their row. It writes
three recordings here: a small one, one of many batches, and one that `kill -9` ends. Each tool reads each of
them and finds the same rows with the right values. The snippets of docs/recording-format.md are run, too, and
the committed recording is compared with the committed CSV.

Needs the packages of requirements-test.txt beside this file. Exits with a non-zero status at the first error.
"""

import contextlib
import io
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa

REPOSITORY = Path(__file__).resolve().parents[2]
GOLDEN = REPOSITORY / "crates/yuzuri-trace/tests/golden"
START_MONO_NS = 86_400_000_000_000
START_UNIX_NS = 1_750_000_000_123_456_789

# Results that each tool computes from the events, as integers.
FACTS = ("events", "sum_cwnd", "sum_ssthresh", "no_ssthresh", "sum_srtt_us", "no_srtt_us", "recovery",
         "bytes_acked_max", "bytes_acked_different", "flows", "mono_first", "mono_last", "time_first_ns")


def expected(events: int) -> dict:
    """The same results computed from the writer's rule."""
    n = range(events)
    srtt = [20_000 + i % 1000 for i in n if i % 10]
    ssthresh = [i % 77 for i in n if i >= 1000]
    return dict(zip(FACTS, (
        events, sum(10 + i % 100 for i in n), sum(ssthresh), events - len(ssthresh), sum(srtt),
        events - len(srtt), sum(i % 50 == 49 for i in n), events - 1, events, min(4, events),
        START_MONO_NS, START_MONO_NS + (events - 1) * 1000, START_UNIX_NS)))


def with_pandas(path: Path) -> dict:
    df = pa.ipc.open_stream(path).read_pandas(types_mapper=pd.ArrowDtype)
    e = df[df.kind == "sample"]
    return dict(zip(FACTS, map(int, (
        len(e), e.cwnd.sum(), e.ssthresh.sum(), e.ssthresh.isna().sum(), e.srtt_us.sum(), e.srtt_us.isna().sum(),
        (e.ca_state == "recovery").sum(), e.bytes_acked.max(), e.bytes_acked.nunique(), e.flow.nunique(),
        e.mono_ns.iloc[0], e.mono_ns.iloc[-1], e.time.iloc[0].value))))


def with_polars(path: Path) -> dict:
    e = pl.read_ipc_stream(path).filter(pl.col("kind") == "sample")
    return dict(zip(FACTS, map(int, (
        e.height, e["cwnd"].sum(), e["ssthresh"].sum(), e["ssthresh"].null_count(), e["srtt_us"].cast(pl.UInt64).sum(),
        e["srtt_us"].null_count(), (e["ca_state"] == "recovery").sum(), e["bytes_acked"].max(),
        e["bytes_acked"].n_unique(), e["flow"].n_unique(), e["mono_ns"][0], e["mono_ns"][-1],
        e["time"].cast(pl.Int64)[0]))))


def with_duckdb(path: Path) -> dict:
    recording = pa.ipc.open_stream(path)
    row = duckdb.sql("""
        SELECT count(*), sum(cwnd), coalesce(sum(ssthresh), 0), count(*) - count(ssthresh), coalesce(sum(srtt_us), 0),
               count(*) - count(srtt_us), count(*) FILTER (ca_state = 'recovery'), max(bytes_acked),
               count(DISTINCT bytes_acked), count(DISTINCT flow), min(mono_ns), max(mono_ns), epoch_ns(min(time))
        FROM recording WHERE kind = 'sample'""").fetchall()[0]
    return dict(zip(FACTS, map(int, row)))


TOOLS = {"pandas": with_pandas, "Polars": with_polars, "DuckDB": with_duckdb}


def same(what: str, found, wanted) -> None:
    if found != wanted:
        sys.exit(f"{what}:\n  found    {found}\n  expected {wanted}")


def check(path: Path, events: int | None = None) -> int:
    """Checks that all tools agree with the rule; without a given count, the tools' own counts must
    agree."""
    for tool, read in TOOLS.items():
        found = read(path)
        events = found["events"] if events is None else events
        same(f"{path.name} with {tool}", found, expected(events))
    check_other_rows(path, events)
    print(f"ok: {path.name}, {events} events, with {', '.join(TOOLS)}")
    return events


def check_other_rows(path: Path, events: int) -> None:
    df = pl.read_ipc_stream(path)
    flows = df.filter(pl.col("kind") == "flow")
    same("flows", flows["flow"].to_list(), [0x1000, 0x1001, 0x1002, 0x1003])
    same("remotes", flows["remote"].to_list(), ["192.0.2.1", "192.0.2.1", "2001:db8:1::1", "192.0.2.1"])
    same("pids", flows["pid"].to_list(), [1000, 1001, 1002, None])
    accounts = df.filter(pl.col("kind") == "account").group_by("mono_ns", maintain_order=True).agg(
        pl.col("seen", "kept", "lost").sum())
    for account in accounts.iter_rows(named=True):
        same("seen = kept + lost", account["seen"], account["kept"] + account["lost"])
        same("kept", account["kept"], (account["mono_ns"] - START_MONO_NS) // 1000)
    same("accounts", accounts.height in (-(-events // 1000), events // 1000), True)
    metadata = {k.decode(): v.decode() for k, v in pa.ipc.open_stream(path).schema.metadata.items()}
    same("format", (metadata["format"], metadata["format_version"]), ("yuzuri-recording", "1"))
    session = json.loads(metadata["session"])
    same("host", (session["host"], metadata["host"]), ("bench", "bench"))
    same("hooks", metadata["hooks"], "tp_btf/tcp_probe")


def check_snippets(path: Path) -> None:
    """Runs the snippets of the documentation."""
    text = (REPOSITORY / "docs/recording-format.md").read_text()
    snippets = re.findall(r"```python\n(.*?)```", text, re.S)
    same("snippets in the documentation", len(snippets), 6)
    for snippet in snippets:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(snippet, "docs/recording-format.md", "exec"), {"path": str(path)})
        same(f"output of\n{snippet}", len(out.getvalue()) > 50, True)
    print(f"ok: {len(snippets)} snippets of docs/recording-format.md")


def check_end(path: Path, finished: bool) -> None:
    """The end mark is the last row, with the sums of the last account; a killed writer leaves
    none."""
    df = pl.read_ipc_stream(path)
    same("end marks", (df["kind"] == "end").sum(), int(finished))
    if finished:
        last = df.filter(pl.col("kind") == "account").group_by("mono_ns").agg(
            pl.col("seen", "kept", "lost", "thinned").sum()).sort("mono_ns").tail(1)
        end = df.tail(1)
        same("the last row", end["kind"].item(), "end")
        same("the sums of the end", end.select("mono_ns", *last.columns[1:]).rows(), last.rows())


def check_checksums(path: Path) -> None:
    """Checks the checksum of every batch by the documented rule with Python's zlib."""
    data = Path(path).read_bytes()
    batches = pa.ipc.open_stream(path)
    stream = pa.BufferReader(data)
    pa.ipc.read_message(stream)
    end = stream.tell()
    checksum = zlib.crc32(data[:end])
    count = 0
    while True:
        try:
            _, metadata = batches.read_next_batch_with_custom_metadata()
        except StopIteration:
            break
        start = end
        pa.ipc.read_message(stream)
        end = stream.tell()
        written = metadata[b"crc32"]
        message = data[start:end].replace(written, b"00000000", 1)
        checksum = zlib.crc32(message, checksum)
        same(f"checksum of batch {count} of {path.name}", written.decode(), f"{checksum:08x}")
        count += 1
    print(f"ok: checksums of {count} batches of {path.name}")


def check_golden(recording: str) -> None:
    """Checks that the committed recording equals the committed CSV, except for the flow's identity,
    which the CSV repeats in each row."""
    df = pl.read_ipc_stream(GOLDEN / f"{recording}.arrows")
    csv = pl.read_csv(GOLDEN / f"{recording}.csv", schema_overrides={k: v for k, v in df.schema.items() if k != "time"})
    same("columns", csv.columns, df.columns)
    identity = df.columns[df.columns.index("local"):df.columns.index("inode") + 1]
    for name in df.columns:
        theirs = csv[name]
        if name == "time":
            theirs = theirs.str.to_datetime(time_unit="ns", time_zone="UTC")
        if name in identity:
            theirs = theirs.zip_with(csv["kind"] == "flow", pl.Series(name, [None] * csv.height, theirs.dtype))
        same(f"golden column {name}", df[name].to_list(), theirs.to_list())
    print(f"ok: golden recording {recording}, {df.height} rows, {df.width} columns")


def killed(writer: str, path: Path) -> None:
    """Starts a writer, kills it with `kill -9` after several batches, and reads the result."""
    process = subprocess.Popen([writer, path])
    try:
        deadline = time.monotonic() + 60
        while not path.exists() or path.stat().st_size < 1_000_000:
            if time.monotonic() > deadline or process.poll() is not None:
                sys.exit(f"the writer did not write: {process.poll()}")
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        same("killed", process.wait(), -signal.SIGKILL)
    events = check(path)
    check_end(path, False)
    check_checksums(path)
    same("several batches before the kill", events > 10_000, True)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    writer = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        for events in (1, 123, 250_000):
            path = Path(folder) / f"{events}.arrows"
            subprocess.run([writer, path, str(events)], check=True, stdout=subprocess.DEVNULL)
            check(path, events)
            check_end(path, True)
            check_checksums(path)
        check_snippets(path)
        killed(writer, Path(folder) / "killed.arrows")
    # Earlier versions of the format, and the current one.
    check_golden("v1")
    check_golden("v1-end")
    check_golden("v1-sender")


if __name__ == "__main__":
    main()
