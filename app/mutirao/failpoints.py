"""Named places where a test may freeze or kill this very process; nothing unless a directory is set."""

from __future__ import annotations

import os
import signal
from pathlib import Path

_armed: dict[str, Path] = {}
_DIRECTORY = "directory"


def configure(directory: Path | None) -> None:
    """Arms the failpoints that have a file in `directory`: its text says `freeze` or `kill`."""
    _armed.clear()
    if directory is not None:
        _armed[_DIRECTORY] = directory


def armed(name: str) -> bool:
    """True when the next `failpoint(name)` will act."""
    return bool(_armed) and (_armed[_DIRECTORY] / name).exists()


def failpoint(name: str) -> None:
    """Stops or kills this process if `name` is armed, once: the file is renamed to `<name>.hit` first."""
    if not _armed:
        return
    path = _armed[_DIRECTORY] / name
    try:
        action = path.read_text().strip()
        path.rename(path.with_name(f"{name}.hit"))
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL if action == "kill" else signal.SIGSTOP)
