"""Identifies the congestion control algorithms in packet captures, and their constants.

    for flow in yuzuri.identify("transfer.pcap.xz"):
        print(flow.source, flow.name, flow.candidates)

`identify` returns the flows of one file, `table` those of many files as one Arrow table, `files`
lists the files in folders.
"""

from __future__ import annotations

from ._errors import CaptureWarning, NotACapture, ReadError
from ._flow import Flow, Measured
from ._native import __version__
from ._read import files, identify
from ._table import table

__all__ = ["CaptureWarning", "Flow", "Measured", "NotACapture", "ReadError", "__version__", "files", "identify", "table"]
