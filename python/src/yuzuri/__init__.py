"""Which congestion control is in these packet captures, and with which constants.

    for flow in yuzuri.identify("transfer.pcap.xz"):
        print(flow.source, flow.name, flow.candidates)

`identify` gives the flows of a file, `table` those of many files as one Arrow table, `files` the files of folders.
"""

from __future__ import annotations

from ._errors import CaptureWarning, NotACapture, ReadError
from ._flow import Flow, Measured
from ._native import __version__
from ._read import files, identify
from ._table import table

__all__ = ["CaptureWarning", "Flow", "Measured", "NotACapture", "ReadError", "__version__", "files", "identify", "table"]
