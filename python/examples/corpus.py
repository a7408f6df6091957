#!/usr/bin/env python3
"""Identifies the congestion control in all captures of a folder with Dask. Writes Parquet.

    corpus.py FOLDER --out flows.parquet                         # on all processors of this machine
    corpus.py FOLDER --out flows.parquet --scheduler tcp://host:8786   # on a cluster

The file has one row per flow. On a cluster all workers need the folder at the same path, and
`yuzuri` and `pyarrow` installed. The exit status is 1 if a file could not be read; the flows of
the others are written.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any

import dask.bag
import pyarrow
import pyarrow.parquet
import yuzuri

if TYPE_CHECKING:
    from collections.abc import Iterator


def one(path: str, min_segments: int) -> dict[str, Any]:
    """Returns a file's table, or its error. Uses one job, because Dask runs one process per
    processor."""
    with warnings.catch_warnings():
        # The column `anomalies` contains the warnings.
        warnings.simplefilter("ignore", yuzuri.CaptureWarning)
        try:
            return {"path": path, "table": yuzuri.table(path, min_segments=min_segments, jobs=1)}
        except yuzuri.NotACapture:
            return {"path": path, "other": True}
        except OSError as error:
            return {"path": path, "error": str(error)}


def compute(bag: Any, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Runs the computation, locally or on a cluster, and shows its progress."""
    if arguments.scheduler is None:
        from dask.diagnostics.progress import ProgressBar

        with ProgressBar(out=sys.stderr):
            return list(bag.compute(scheduler="processes", num_workers=arguments.workers))
    from dask.distributed import Client, progress

    with Client(arguments.scheduler) as client:
        future = client.compute(bag)
        progress(future)
        print(file=sys.stderr)
        return list(future.result())


@contextlib.contextmanager
def replaced(path: str) -> Iterator[str]:
    """Yields a temporary path next to the file, and moves it into place on success."""
    beside = f"{path}.part"
    try:
        yield beside
        os.replace(beside, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(beside)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", metavar="FOLDER", help="where the captures are, also in folders below")
    parser.add_argument("--out", required=True, metavar="FILE.parquet", help="where the table goes")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="of dask.distributed; without it, processes of this machine")
    parser.add_argument("--workers", type=int, metavar="N", help="processes on this machine (as many as processors)")
    parser.add_argument("--min-segments", type=int, default=100, metavar="N", help="that a flow must have (100)")
    arguments = parser.parse_args()
    try:
        paths = [os.path.abspath(path) for path in yuzuri.files(arguments.folder)]
    except (OSError, yuzuri.NotACapture) as error:
        print(f"corpus.py: {error}", file=sys.stderr)
        return 1
    # A task costs about a millisecond, so a task handles several files if there are very many.
    size = max(1, len(paths) // 2000)
    bag = dask.bag.from_sequence(paths, partition_size=size).map(one, min_segments=arguments.min_segments)
    done = compute(bag, arguments)
    tables = [each["table"] for each in done if "table" in each]
    failed = [each for each in done if "error" in each]
    others = sum("other" in each for each in done)
    for each in failed:
        print(f"corpus.py: {each['error']}", file=sys.stderr)
    if not tables:
        print(f"corpus.py: nothing in {arguments.folder} could be read ({others} files of other kinds)", file=sys.stderr)
        return 1
    flows = pyarrow.concat_tables(tables)
    with replaced(arguments.out) as path:
        pyarrow.parquet.write_table(flows, path, compression="zstd")
    named = len(flows) - flows["name"].null_count
    print(f"{len(tables)} files, {len(flows)} flows, {named} named: {arguments.out}"
          f" ({others} files of other kinds, {len(failed)} failed)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
