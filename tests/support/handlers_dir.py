"""A directory of handlers, written by a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def handlers_dir(below: Path) -> Path:
    """An empty one that nobody else may write to."""
    directory = below / "handlers"
    directory.mkdir(mode=0o755)
    directory.chmod(0o755)
    return directory


def write(directory: Path, name: str, text: str, mode: int = 0o644) -> Path:
    """A file of that name and mode, whatever the umask."""
    path = directory / name
    path.write_text(text)
    path.chmod(mode)
    return path


def program(directory: Path, name: str, script: str, **schema: Any) -> Path:
    """A shell script and the schema beside it; its payload is anything unless told."""
    write(directory, f"{name}.json", json.dumps({"payload": {}} | schema))
    return write(directory, name, f"#!/bin/sh\n{script}\n", 0o755)
