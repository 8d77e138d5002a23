"""The memory that agent, guard and runners share: a lease's deadline, a fence count, one slot per runner.

Only the guard writes `fences`, only the agent writes `deadline`. Of a slot, the first two words and the
record are its runner's, the others the agent's. Aligned 64-bit words: each is read and written whole.
"""

from __future__ import annotations

import mmap
import os
import time

RECORD = 2048

_DEADLINE, _FENCES, _SLOTS = 0, 1, 8
_HELD, _STARTED, _DRAINED, _CANCELLED, _PER_SLOT = range(5)
_WORD = 8


def boottime_ns() -> int:
    """Nanoseconds since boot, suspended time included (I8)."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Shared:
    """A view of the shared words; a deadline of 0 means that none was ever set."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, 0)
        self._words = memoryview(self._map).cast("Q")
        runners = (len(self._map) - _SLOTS * _WORD) // (_PER_SLOT * _WORD + RECORD)
        self._records = len(self._map) - runners * RECORD

    @staticmethod
    def create(runners: int) -> int:
        """A new memory file, all zero, with room for so many runners."""
        descriptor = os.memfd_create("mutirao-shared", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, (_SLOTS + _PER_SLOT * runners) * _WORD + RECORD * runners)
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
        at = _SLOTS + _PER_SLOT * runner
        return self._words[at + _HELD], self._words[at + _STARTED]

    def occupy(self, runner: int, sequence: int, started: int) -> None:
        """Says what the runner holds; the time first, so that it is never an older task's."""
        at = _SLOTS + _PER_SLOT * runner
        self._words[at + _STARTED] = started
        self._words[at + _HELD] = sequence

    def vacate(self, runner: int) -> None:
        """Says that the runner holds nothing; before it asks for more."""
        at = _SLOTS + _PER_SLOT * runner
        self._words[at + _HELD] = 0
        self._words[at + _STARTED] = 0

    def drained(self, runner: int) -> int:
        """Twice the bytes that the agent has read of the runner's output; odd while it is reading."""
        return self._words[_SLOTS + _PER_SLOT * runner + _DRAINED]

    def set_drained(self, runner: int, value: int) -> None:
        """Notes what `drained` says."""
        self._words[_SLOTS + _PER_SLOT * runner + _DRAINED] = value

    def cancelled(self, runner: int) -> int:
        """The sequence of the task that this runner should end (0: none)."""
        return self._words[_SLOTS + _PER_SLOT * runner + _CANCELLED]

    def cancel(self, runner: int, sequence: int) -> None:
        """Asks the runner to end that task."""
        self._words[_SLOTS + _PER_SLOT * runner + _CANCELLED] = sequence

    def record(self, runner: int) -> bytes:
        """What the runner has noted; it may be writing at this moment."""
        at = self._records + RECORD * runner
        return self._map[at : at + RECORD]

    def note(self, runner: int, record: bytes) -> None:
        """Writes the runner's record, of at most RECORD bytes."""
        at = self._records + RECORD * runner
        self._map[at : at + len(record)] = record

    def close(self) -> None:
        """Unmaps the memory."""
        self._words.release()
        self._map.close()
