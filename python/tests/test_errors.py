"""Invalid input raises a specific exception whose message says what to do."""

import errno
import os
from pathlib import Path

import pytest
import yuzuri


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    missing = tmp_path / "missing.pcap"
    with pytest.raises(FileNotFoundError, match=r"missing\.pcap.*check its name") as caught:
        yuzuri.identify(missing)
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(FileNotFoundError):
        yuzuri.table([missing])


def test_a_path_through_a_file(reno: Path) -> None:
    with pytest.raises(NotADirectoryError, match="check that it is a file and may be read") as caught:
        yuzuri.identify(reno / "below.pcap")
    assert caught.value.errno == errno.ENOTDIR


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    closed = tmp_path / "closed.pcap"
    closed.touch(mode=0)
    with pytest.raises(PermissionError, match=r"closed\.pcap.*the right to read it"):
        yuzuri.identify(closed)


def test_a_folder_is_no_file(folder: Path) -> None:
    with pytest.raises(IsADirectoryError, match="check that it is a file"):
        yuzuri.identify(folder)


def test_a_text_is_no_capture(folder: Path) -> None:
    for call in (yuzuri.identify, yuzuri.table):
        with pytest.raises(yuzuri.NotACapture, match=r"notes\.txt is not a packet capture.*Yuzuri reads pcap") as caught:
            call(folder / "notes.txt")
        assert isinstance(caught.value, ValueError)


def test_an_empty_file_is_no_capture(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.touch()
    with pytest.raises(yuzuri.NotACapture):
        yuzuri.identify(empty)


def test_an_empty_folder(tmp_path: Path) -> None:
    for call in (yuzuri.table, yuzuri.files):
        with pytest.raises(yuzuri.NotACapture, match="no capture.*0 other files"):
            call(tmp_path)


def test_a_folder_of_other_files(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("no packets\n")
    assert yuzuri.files(tmp_path) == [tmp_path / "a.txt", tmp_path / "b.txt"]
    with pytest.raises(yuzuri.NotACapture, match="no capture.*2 other files"):
        yuzuri.table([tmp_path])


def test_a_cut_capture_gives_what_comes_before(tmp_path: Path, reno: Path) -> None:
    whole = reno.read_bytes()
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(whole[: len(whole) // 2 + 5])
    with pytest.warns(yuzuri.CaptureWarning, match=r"cut\.pcap: cut within a packet, at byte \d+") as warned:
        (flow,) = yuzuri.identify(cut)
    assert warned[0].filename == __file__
    assert flow.name is not None
    assert flow.anomalies[0].startswith("cut within")
    assert 10 < flow.seconds < 20
    with pytest.warns(yuzuri.CaptureWarning):
        table = yuzuri.table(cut)
    assert table["anomalies"].to_pylist() == [flow.anomalies]


def test_a_compression_that_is_cut(tmp_path: Path, cubic: Path) -> None:
    packed = cubic.read_bytes()
    cut = tmp_path / "cut.pcap.gz"
    cut.write_bytes(packed[: len(packed) // 2])
    with pytest.warns(yuzuri.CaptureWarning, match="compression ends early"):
        (flow,) = yuzuri.identify(cut)
    assert 5 < flow.seconds < 25


def test_a_file_called_minus_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError):
        yuzuri.identify("-")


def test_arguments_that_cannot_be(reno: Path) -> None:
    with pytest.raises(ValueError, match="min_segments is 0"):
        yuzuri.identify(reno, min_segments=0)
    with pytest.raises(ValueError, match="jobs is 0"):
        yuzuri.table(reno, jobs=0)
    with pytest.raises(ValueError, match="errors is 'ignore'"):
        yuzuri.table(reno, errors="ignore")
    with pytest.raises(TypeError):
        yuzuri.identify(7)
