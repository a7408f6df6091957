"""Many files as one table."""

from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import yuzuri


@pytest.fixture(scope="module")
def table(folder: Path) -> pyarrow.Table:
    return yuzuri.table(folder)


def test_a_row_for_each_flow(table: pyarrow.Table, reno: Path, cubic: Path) -> None:
    # Sorted by name, with subfolders: below/cubic.pcap.gz, notes.txt (skipped), reno.pcap.
    assert table["file"].to_pylist() == [str(cubic), str(reno)]
    for row in table.to_pylist(maps_as_pydicts="strict"):
        (flow,) = yuzuri.identify(row["file"])
        assert row["rounds"] == flow.round_count
        assert (row["beta"], row["beta_low"], row["beta_high"]) == (flow.beta.median, flow.beta.low, flow.beta.high)
        assert (row["probability"], row["anomalies"]) == (flow.probability, [])
        said = flow.to_dict(rounds=False)
        for name in set(said) - {"beta", "cubic_c", "cubic_b", "round_count"}:
            assert row[name] == said[name], name


def test_columns_are_the_same_whatever_is_in_them(table: pyarrow.Table) -> None:
    nothing = yuzuri.table([])
    assert len(nothing) == 0
    assert nothing.schema == table.schema


def test_jobs_change_nothing(folder: Path, table: pyarrow.Table) -> None:
    for jobs in (1, 2, 8):
        assert yuzuri.table([folder], jobs=jobs) == table


def test_parquet_keeps_it(tmp_path: Path, table: pyarrow.Table) -> None:
    pyarrow.parquet.write_table(table, tmp_path / "flows.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "flows.parquet") == table


def test_errors_can_be_warnings(folder: Path, reno: Path, table: pyarrow.Table) -> None:
    paths = [folder / "missing.pcap", folder / "notes.txt", folder]
    with pytest.raises(FileNotFoundError):
        yuzuri.table(paths)
    with pytest.warns(yuzuri.CaptureWarning) as warned:
        read = yuzuri.table(paths, errors="warn")
    assert read == table
    assert len(warned) == 2
    assert "missing.pcap" in str(warned[0].message)
    assert "notes.txt is not a packet capture" in str(warned[1].message)
