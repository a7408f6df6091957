"""The flows of many files as one Arrow table."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from . import _native
from ._errors import CaptureWarning, NotACapture, ReadError
from ._read import at_least_one, plan, warn_of

if TYPE_CHECKING:
    import pyarrow

    from ._read import AnyPath

# A quantity with an interval has a column for each end.
MEASURED = ("beta", "cubic_c", "cubic_b")
# Fields that become columns unchanged.
PLAIN = ("source", "destination", "name", "set", "because", "candidates", "evidence", "notes", "initial_window", "capture_point",
         "losses", "timeouts", "seconds", "window_median", "window_greatest", "rtt_median_us", "min_rtt_us", "mss_bytes",
         "acked_bytes", "segments", "retransmitted", "kernel_name")


def table(
    paths: AnyPath | Iterable[AnyPath],
    *,
    min_segments: int = 100,
    jobs: int | None = None,
    errors: Literal["raise", "warn"] = "raise",
) -> pyarrow.Table:
    """Returns the flows of files and folders, one row per flow; `docs/python.md` lists the columns.

    Analyses `jobs` files in parallel, by default one per processor. Skips unsupported files in
    folders. With `errors="warn"` an unreadable file gives a `CaptureWarning` instead of an
    exception; the table contains its flows up to the error and those of the other files.

    Needs pyarrow. Raises like `identify`, and `NotACapture` for a folder without any supported
    file.
    """
    arrow_schema = schema()
    if errors not in ("raise", "warn"):
        raise ValueError(f'errors is {errors!r}: "raise" and "warn" are allowed')
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs is {jobs}: at least 1 is needed")
    given, found = plan(paths)
    rows: list[dict[str, Any]] = []
    read: Counter[int | None] = Counter()
    others: Counter[int | None] = Counter()
    work = analysed([path for path, _ in found], at_least_one(min_segments), jobs or os.cpu_count() or 1)
    with work as each:
        for (path, folder), finish in zip(found, each):
            try:
                done = finish()
            except NotACapture as error:
                others[folder] += 1
                if folder is None:
                    fail(error, errors)
                continue
            except OSError as error:
                read[folder] += 1
                fail(error, errors)
                continue
            read[folder] += 1
            warn_of(path, done, stacklevel=3)
            rows += [row(os.fspath(path), done["anomalies"], fields) for fields in done["flows"]]
            if done["error"] is not None:
                fail(ReadError(done["error"]), errors)
    for folder in others:
        if folder is not None and not read[folder]:
            try:
                _native.empty_folder(given[folder], others[folder])
            except NotACapture as error:
                fail(error, errors)
    import pyarrow

    return pyarrow.Table.from_pylist(rows, schema=arrow_schema)


def schema() -> pyarrow.Schema:
    """The schema of `table`."""
    try:
        import pyarrow
    except ImportError as error:
        words = "yuzuri.table needs pyarrow: install it (pip install pyarrow), or use yuzuri.identify, which does without"
        raise ImportError(words) from error
    text, number, count = pyarrow.string(), pyarrow.float64(), pyarrow.int64()
    texts = pyarrow.list_(text)
    kinds = {"set": texts, "evidence": texts, "notes": texts, "anomalies": texts, "candidates": pyarrow.map_(text, number)}
    kinds |= dict.fromkeys(("file", "source", "destination", "name", "because", "capture_point", "kernel_name"), text)
    kinds |= dict.fromkeys(("losses", "timeouts", "rounds", "rtt_median_us", "min_rtt_us", "mss_bytes", "acked_bytes",
                            "segments", "retransmitted"), count)
    return pyarrow.schema([(name, kinds.get(name, number)) for name in names()])


def names() -> list[str]:
    measured = [each + end for each in MEASURED for end in ("", "_low", "_high")]
    return ["file", "anomalies", *PLAIN[:3], "probability", *PLAIN[3:], "rounds", *measured]


def row(file: str, anomalies: list[str], fields: dict[str, Any]) -> dict[str, Any]:
    made = {name: fields[name] for name in PLAIN}
    made |= {"file": file, "anomalies": anomalies, "rounds": fields["round_count"]}
    made["probability"] = next(iter(fields["candidates"].values()), None)
    made["candidates"] = list(fields["candidates"].items())
    for each in MEASURED:
        made[each], made[each + "_low"], made[each + "_high"], _ = fields[each] or (None,) * 4
    return made


@contextmanager
def analysed(paths: list[Any], min_segments: int, jobs: int) -> Iterator[Iterator[Any]]:
    """Yields, for each path in order, a function that waits for its result. All analyses end with
    the `with` block."""
    stop = _native.Stop()

    def analyse(path: Any) -> dict[str, Any]:
        return _native.analyse(path, min_segments=min_segments, rounds=False, stop=stop)

    if min(jobs, len(paths)) <= 1:
        # Run on this thread, so that Ctrl-C interrupts the analysis of a file.
        yield (lambda path=path: analyse(path) for path in paths)
        return
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="yuzuri")
    try:
        yield (future.result for future in [pool.submit(analyse, path) for path in paths])
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def fail(error: Exception, errors: str) -> None:
    if errors == "raise":
        raise error
    warnings.warn(str(error), CaptureWarning, stacklevel=3)
