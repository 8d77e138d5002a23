"""Processes as the tests see them: alive or dead, whose they are, and ending them by id."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterable
from pathlib import Path

import psutil

from mutirao.loop import boottime
from tests.support.waiting import until

MARKER = "ACCEPTANCE_RUN"


def alive(pid: int) -> bool:
    """True for a process that still executes or may again; a zombie is dead."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def send(pid: int, signum: signal.Signals) -> None:
    """Sends a signal; a process that is gone already is no error."""
    assert pid > 1, "no single process"
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signum)


def belonging_to(run: str) -> list[int]:
    """Every live process of this run: its directory is in the environment or
    arguments, or it works there, or descends from such a one."""
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = [
        process for process in psutil.process_iter() if process.pid not in own and _belongs(process, run)
    ]
    descendants = {child for process in found for child in children(process.pid)}
    return sorted({process.pid for process in found} | {pid for pid in descendants if alive(pid)})


def _belongs(process: psutil.Process, run: str) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return (
            any(run in value for value in process.environ().values())
            or any(run in argument for argument in process.cmdline())
            or process.cwd().startswith(run)
        )
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def end_all(run: str, timeout: float = 20.0) -> None:
    """Kills whatever belongs to the run, until nothing does."""

    def none_left() -> bool:
        left = belonging_to(run)
        for pid in left:
            send(pid, signal.SIGKILL)
        return not left

    until(none_left, timeout, f"no process of {run} left", every=0.1)


def children(pid: int) -> list[int]:
    """All descendants of a process, now."""
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def owner_of(path: Path) -> int:
    """The pid at the end of a run directory's name: the test session that made it."""
    return int(path.name.rpartition("-")[2])


class Watch(threading.Thread):
    """Notes, to about 10 ms, when each of some processes died (CLOCK_BOOTTIME)."""

    def __init__(self, pids: Iterable[int]) -> None:
        super().__init__(daemon=True)
        self.died: dict[int, float] = {}
        self._pids = list(pids)
        self._enough = threading.Event()
        self.start()

    def run(self) -> None:
        """Looks until all are dead or nobody asks any more."""
        while len(self.died) < len(self._pids) and not self._enough.wait(0.01):
            for pid in self._pids:
                if pid not in self.died and not alive(pid):
                    self.died[pid] = boottime()

    def last_death(self, timeout: float) -> float:
        """When the last of them died; an error if one still lives after `timeout`."""
        self.join(timeout)
        self._enough.set()
        survivors = sorted(set(self._pids) - set(self.died))
        assert not survivors, f"still alive after {timeout:g} s: {survivors}"
        return max(self.died.values())
