"""The memory that agent, guard and runners share: a lease's deadline, a fence count, one slot per runner.

Only the guard writes `fences`, only the agent writes `deadline`, a slot is its runner's.
Aligned 64-bit words: each is read and written whole.
"""

from __future__ import annotations

import mmap
import os
import time

_DEADLINE, _FENCES, _SLOTS = 0, 1, 8
_WORD = 8


def boottime_ns() -> int:
    """Nanoseconds since boot, suspended time included (I8)."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Shared:
    """A view of the shared words; a deadline of 0 means that none was ever set."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, 0)
        self._words = memoryview(self._map).cast("Q")

    @staticmethod
    def create(runners: int) -> int:
        """A new memory file, all zero, with room for so many runners."""
        descriptor = os.memfd_create("mutirao-shared", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, (_SLOTS + 2 * runners) * _WORD)
        return descriptor

    @property
    def deadline(self) -> int:
        """When every runner must be dead, in boottime nanoseconds."""
        return self._words[_DEADLINE]

    @deadline.setter
    def deadline(self, value: int) -> None:
        self._words[_DEADLINE] = value

    @property
    def fences(self) -> int:
        """How often the guard has fenced; it grows before the first runner is killed."""
        return self._words[_FENCES]

    @fences.setter
    def fences(self, value: int) -> None:
        self._words[_FENCES] = value

    def slot(self, runner: int) -> tuple[int, int]:
        """The sequence of the task the runner holds (0: none) and when it took it."""
        at = _SLOTS + 2 * runner
        return self._words[at], self._words[at + 1]

    def occupy(self, runner: int, sequence: int, started: int) -> None:
        """Says what the runner holds; the time first, so that it is never an older task's."""
        at = _SLOTS + 2 * runner
        self._words[at + 1] = started
        self._words[at] = sequence

    def vacate(self, runner: int) -> None:
        """Says that the runner holds nothing; before it asks for more."""
        at = _SLOTS + 2 * runner
        self._words[at] = 0
        self._words[at + 1] = 0

    def close(self) -> None:
        """Unmaps the memory."""
        self._words.release()
        self._map.close()
