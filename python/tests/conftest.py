"""The captures for the tests, created once."""

from pathlib import Path

import captures
import pytest


@pytest.fixture(scope="session")
def reno_packets() -> list:
    return captures.download(captures.Reno(), seconds=30)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, reno_packets: list) -> Path:
    """Two captures, one of them compressed in a subfolder, and a file of another kind."""
    folder = tmp_path_factory.mktemp("captures")
    (folder / "below").mkdir()
    captures.write(folder / "reno.pcap", reno_packets)
    captures.write(folder / "below" / "cubic.pcap.gz", captures.download(captures.Cubic(), seconds=30))
    (folder / "notes.txt").write_text("These captures are simulated.\n")
    return folder


@pytest.fixture(scope="session")
def reno(folder: Path) -> Path:
    return folder / "reno.pcap"


@pytest.fixture(scope="session")
def cubic(folder: Path) -> Path:
    return folder / "below" / "cubic.pcap.gz"
