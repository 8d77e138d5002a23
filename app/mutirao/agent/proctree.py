"""Processes as /proc shows them, and two prctl calls; standard library only."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


def become_subreaper() -> None:
    """From now on, orphaned descendants become this process's children."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """From now on, this process is killed when its parent dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def processes() -> list[int]:
    """Every process that exists."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 (names, fast)


def _status(pid: int) -> list[str] | None:
    """The fields of /proc/<pid>/stat from the state on, or None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return text[text.rindex(b")") + 2 :].decode().split()


def children_of(parent: int) -> list[tuple[int, int]]:
    """Children (zombies too) and their process groups.

    Exact for the caller's own: its child stays in /proc, under its number, until the caller reaps it.
    """
    found = []
    for pid in processes():
        fields = _status(pid)
        if fields is not None and int(fields[1]) == parent:
            found.append((pid, int(fields[2])))
    return found


def is_dead(pid: int) -> bool:
    """True when no thread of the process can run any more (a zombie is dead)."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
        states = [Path(f"/proc/{pid}/task/{thread}/stat").read_bytes() for thread in threads]
    except OSError:
        return not Path(f"/proc/{pid}").exists()
    return all(text[text.rindex(b")") + 2 :][:1] in b"ZX" for text in states)


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Sends a signal; a process that is gone already is no error."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def kill_group(group: int) -> None:
    """Kills a whole process group at once, what it is just forking included."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def limit_mark(node: int) -> int:
    """A real-time limit that is no limit (centuries) and tells one node's processes from all others."""
    return (1 << 61) | (node & ((1 << 60) - 1))


def mark_by_limit(node: int) -> None:
    """Marks this process and all its descendants, `env -i` ones included; best effort."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_RTTIME, (limit_mark(node), limit_mark(node)))
