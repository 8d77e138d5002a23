"""Finding and ending what an aborted run left behind, and nothing else."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

MARKER = "MUTIRAO_CLUSTER"
# A guard and its runners carry this; a guard ends its runners better than we could, so it goes first.
RUN_MARKER = b"MUTIRAO_RUN="


def end_marked(cluster: str, *, patience: float = 3.0, timeout: float = 10.0) -> list[int]:
    """Ends every process that carries the cluster's mark; returns their pids once none is left.

    Agents and servers are killed at once; guards have `patience` seconds to end their runners themselves.
    """
    entry = f"{MARKER}={cluster}".encode()
    ended = _end_all(lambda environ: entry in environ and not _of_a_run(environ), timeout)
    _wait(lambda: not _having(lambda environ: entry in environ), patience)
    return ended + _end_all(lambda environ: entry in environ, timeout)


def using(directory: Path) -> list[int]:
    """Pids of the living processes whose working directory is `directory` (a PostgreSQL's data directory)."""
    return [pid for pid in _processes() if _works_in(pid, directory)]


def end_server(pid: int, directory: Path, *steps: tuple[signal.Signals, float]) -> None:
    """Ends the server `pid` if it really works in `directory`: each signal, its wait, then SIGKILL."""
    for number, patience in (*steps, (signal.SIGKILL, 5.0)):
        if not _signal(pid, number, lambda: _works_in(pid, directory)):
            return
        if _wait(lambda: not _works_in(pid, directory), patience):
            return


def wait_gone(directory: Path, timeout: float) -> bool:
    """True once no process works in `directory`."""
    return _wait(lambda: not using(directory), timeout)


def _end_all(wanted: Callable[[list[bytes]], bool], timeout: float) -> list[int]:
    ended: dict[int, None] = {}
    deadline = time.monotonic() + timeout
    while (left := _having(wanted)) and time.monotonic() < deadline:
        for pid in left:
            _end(pid, wanted)
            ended[pid] = None
        time.sleep(0.02)
    return list(ended)


def _end(pid: int, wanted: Callable[[list[bytes]], bool]) -> None:
    _signal(pid, signal.SIGKILL, lambda: wanted(_environment(pid)))


def _having(wanted: Callable[[list[bytes]], bool]) -> list[int]:
    return [pid for pid in _processes() if wanted(_environment(pid))]


def _of_a_run(environ: list[bytes]) -> bool:
    return any(entry.startswith(RUN_MARKER) for entry in environ)


def _signal(pid: int, number: signal.Signals, still_wanted: Callable[[], bool]) -> bool:
    """Signals through a pidfd that was checked after opening, so a recycled pid is never hit."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if not still_wanted():
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def _processes() -> Iterator[int]:
    me = os.getpid()
    return (int(entry) for entry in os.listdir("/proc") if entry.isdigit() and int(entry) != me)  # noqa: PTH208


def _environment(pid: int) -> list[bytes]:
    # Gone, a zombie, or another user's: not ours to end.
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _works_in(pid: int, directory: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").samefile(directory)
    except OSError:
        return False


def _wait(condition: Callable[[], bool], timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
