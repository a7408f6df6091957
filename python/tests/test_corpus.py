"""Runs the example as a user would."""

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import yuzuri

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "corpus.py"


def run(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, EXAMPLE, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def test_a_corpus_becomes_parquet(tmp_path: Path, folder: Path) -> None:
    out = tmp_path / "flows.parquet"
    done = run(folder, "--out", out, "--workers", 2)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"2 files, 2 flows, 2 named: {out} (1 files of other kinds, 0 failed)\n"
    assert "100% Completed" in done.stderr
    assert pyarrow.parquet.read_table(out) == yuzuri.table(folder)
    assert list(tmp_path.iterdir()) == [out]


def test_a_corpus_that_is_none(tmp_path: Path) -> None:
    for folder, words in ((tmp_path, "contains no capture"), (tmp_path / "missing", "check its name")):
        out = tmp_path.parent / "none.parquet"
        done = run(folder, "--out", out)
        assert done.returncode == 1
        assert words in done.stderr
        assert not out.exists()
