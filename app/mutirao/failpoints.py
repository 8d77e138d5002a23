"""Named places where a test may freeze or kill this very process; nothing unless a directory is set."""

from __future__ import annotations

import os
import signal
from pathlib import Path

_directory: Path | None = None


def configure(directory: Path | None) -> None:
    """Arms the failpoints that have a file in `directory`: its text says `freeze` or `kill`."""
    global _directory
    _directory = directory


def armed(name: str) -> bool:
    """True when the next `failpoint(name)` will act."""
    return _directory is not None and (_directory / name).exists()


def failpoint(name: str) -> None:
    """Stops or kills this process if `name` is armed, once: the file is renamed to `<name>.hit` first."""
    if _directory is None:
        return
    path = _directory / name
    try:
        action = path.read_text().strip()
        path.rename(path.with_name(f"{name}.hit"))
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL if action == "kill" else signal.SIGSTOP)
