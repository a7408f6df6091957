"""Reads flows from files and folders."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Union

from . import _native
from ._errors import CaptureWarning, ReadError
from ._flow import Flow, make

if TYPE_CHECKING:
    AnyPath = Union[str, os.PathLike[str]]


def identify(path: AnyPath, *, min_segments: int = 100) -> list[Flow]:
    """Returns the flows of a file in order of their start. Each direction is a flow. Flows with
    fewer than `min_segments` segments with payload are omitted.

    A truncated or damaged capture yields the flows before the damage, with a `CaptureWarning`.

    Raises the matching OSError if the file cannot be opened, `NotACapture` if its kind is not
    supported, `ReadError` if it could not be read to its end.
    """
    done = _native.analyse(path, min_segments=at_least_one(min_segments))
    warn_of(path, done, stacklevel=3)
    flows = [make(os.fspath(path), done["anomalies"], fields) for fields in done["flows"]]
    if done["error"] is not None:
        raise_read_error(done["error"], flows)
    return flows


def files(paths: AnyPath | Iterable[AnyPath]) -> list[Path]:
    """Returns the files at these paths of files and folders. Folders are searched recursively, and
    their files sorted by name; links to folders are not followed. The files of folders may be of
    any kind.

    Raises `NotACapture` for an empty folder, OSError if a folder cannot be read.
    """
    return [path for path, _ in plan(paths)[1]]


def plan(paths: AnyPath | Iterable[AnyPath]) -> tuple[list[AnyPath], list[tuple[Path, int | None]]]:
    """The paths as a list; and the files, each with the index of the folder that contained it."""
    given: list[AnyPath] = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found = _native.plan(given)
    full = {folder for _, folder in found}
    for place, path in enumerate(given):
        if place not in full and os.path.isdir(path):
            _native.empty_folder(path, 0)
    return given, found


def at_least_one(min_segments: int) -> int:
    if min_segments < 1:
        raise ValueError(f"min_segments is {min_segments}: at least 1 segment is needed to say anything of a flow")
    return min_segments


def warn_of(path: AnyPath, done: dict[str, Any], *, stacklevel: int) -> None:
    if done["missing"]:
        warnings.warn(f"{os.fspath(path)}: {'; '.join(done['anomalies'])}", CaptureWarning, stacklevel=stacklevel)


def raise_read_error(words: Any, flows: list[Flow]) -> NoReturn:
    error = ReadError(words)
    error.flows = flows
    raise error
