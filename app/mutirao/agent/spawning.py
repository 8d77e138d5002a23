"""How the guard makes a runner; standard library only."""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import suppress
from pathlib import Path

from mutirao.agent import proctree

TASKS, RESULTS, SHARED, OUTPUT = 3, 4, 5, 6
_ABOVE = 64


def spawn(index: int, descriptors: list[int]) -> int:
    """Starts runner `index` with its descriptors at 3 to 6, the last one its output too; returns its pid."""
    guard = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _become_runner(guard, index, descriptors)
        finally:
            os._exit(127)
    return pid


def _become_runner(guard: int, index: int, descriptors: list[int]) -> None:
    os.setsid()
    proctree.become_subreaper()
    proctree.die_with_parent()
    if os.getppid() != guard:
        return  # it died before its death would have been noticed
    # When memory runs out, a job should go before anything that others depend on.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for descriptor in descriptors]
    for number, descriptor in zip((TASKS, RESULTS, SHARED, OUTPUT), high, strict=True):
        os.dup2(descriptor, number, inheritable=True)
    for number in (1, 2):
        os.dup2(OUTPUT, number)
    # -u for what C code prints: held back by its library, it would be another attempt's, or lost.
    arguments = ["-P", "-u", "-m", "mutirao.agent.runner_process", str(index)]
    os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606
