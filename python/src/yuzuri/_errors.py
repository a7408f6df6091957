"""What can go wrong. Files that are not there or may not be read raise Python's own subclasses of OSError."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._flow import Flow


class NotACapture(ValueError):
    """The file is neither a capture nor a recording or log that is read; or a folder has no such file."""


class ReadError(OSError):
    """The file could not be read to its end. A file that is merely cut or damaged does not raise: see `CaptureWarning`."""

    flows: list[Flow]
    """Flows of what came before."""


class CaptureWarning(UserWarning):
    """Some of the file is missing, and what is said of its flows comes from the rest: it is cut or damaged, or packets
    were lost while it was written."""
