"""Room on the disk: asked for before a start, and recognised where a server ran out of it."""

from __future__ import annotations

import shutil
from pathlib import Path

from mutirao.errors import MutiraoError

# A new cluster is 70 MiB before it has done anything; an old one needs a segment or two of its log.
FOR_A_NEW, FOR_AN_OLD = 128 << 20, 48 << 20
_FULL = "No space left on device"


def require_room(directory: Path, *, new: bool) -> None:
    """Raises when the disk of `directory` has too little room for a start to succeed."""
    free, needed = shutil.disk_usage(directory).free, FOR_A_NEW if new else FOR_AN_OLD
    if free < needed:
        kind = "a new cluster" if new else "a start"
        raise full(directory, f"{free >> 20} MiB are free, {kind} needs {needed >> 20} MiB")


def explained(message: str, directory: Path, *, kind: type[MutiraoError] = MutiraoError) -> MutiraoError:
    """The error for a server's own last words: a full disk where they speak of one."""
    return full(directory, message) if _FULL in message else kind(message)


def full(directory: Path, detail: str) -> MutiraoError:
    """The disk of `directory` is full."""
    return MutiraoError(
        f"the disk of {directory} is full: {detail}",
        hint="make room on it and start again, or choose another directory with --data",
    )
