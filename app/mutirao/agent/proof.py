"""Proof of death without a cgroup: every process of a node's former run is found, killed and gone."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from mutirao.agent import proctree
from mutirao.agent.guard_link import MARKER

_PAUSE = 0.01


def find_marked(node_id: UUID) -> list[int]:
    """Living processes with the node's marker in their environment or limits; never this one."""
    by_environment = f"{MARKER}={node_id}".encode()
    by_limit = str(proctree.limit_mark(node_id.int)).encode()
    return [
        pid
        for pid in proctree.processes()
        if pid != os.getpid() and _is_marked(pid, by_environment, by_limit) and not proctree.is_dead(pid)
    ]


def end_marked(node_id: UUID, *, grace: float = 1.0, timeout: float = 10.0) -> bool:
    """True once no process of the node's former run lives: within `grace` by itself, else killed.

    False, no proof: some would not die within `timeout`.
    """
    start = time.monotonic()
    while time.monotonic() < start + grace:
        if _none_left(node_id):
            return True
        time.sleep(_PAUSE)
    while not _none_left(node_id):
        if time.monotonic() > start + grace + timeout:
            return False
        for pid in find_marked(node_id):
            with suppress(PermissionError):
                proctree.kill(pid)
        time.sleep(_PAUSE)
    return True


def _none_left(node_id: UUID) -> bool:
    # Twice: a process may fork into a number that the first look has passed, or be between two programs.
    return not find_marked(node_id) and not find_marked(node_id)


def _is_marked(pid: int, by_environment: bytes, by_limit: bytes) -> bool:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/limits").read_bytes().splitlines():
            if line.startswith(b"Max realtime timeout") and by_limit in line:
                return True
    with suppress(OSError):
        return by_environment in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False
