"""Exceptions and warnings. Missing or unreadable files raise Python's own subclasses of
OSError."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._flow import Flow


class NotACapture(ValueError):
    """The file is not a supported capture, recording or log, or a folder contains no such file."""


class ReadError(OSError):
    """The file could not be read to its end. A truncated or damaged file does not raise: see
    `CaptureWarning`."""

    flows: list[Flow]
    """The flows found before the error."""


class CaptureWarning(UserWarning):
    """Part of the file is missing, so the results of its flows are based on the rest: the file is
    truncated or damaged, or packets were lost during the capture."""
