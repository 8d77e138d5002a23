"""Wake-ups from a thread of their own: no request ever waits for Redis, or fails with it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from uuid import UUID

from mutirao.coordination.wakeup import Wakeups
from mutirao.loop import Loop, boottime

_IDLE = 3600.0
_SPACING = 0.005
_MAX_CANCELS = 10_000


class Waker:
    """Says that there is work or a cancel; calls made during one publication share the next."""

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self._work = threading.Event()
        self._published_at = float("-inf")
        self._cancels: deque[UUID] = deque(maxlen=_MAX_CANCELS)
        self._loop = Loop("waker", self._run_once)
        self._loop.start()

    def work(self) -> None:
        """There is something to plan. Returns at once; without Redis the hint is dropped."""
        if not self._work.is_set():
            self._work.set()
            self._loop.wake()

    def cancel(self, jobs: Iterable[UUID]) -> None:
        """These running jobs are to end. Returns at once."""
        self._cancels.extend(jobs)
        self._loop.wake()

    def close(self) -> None:
        """Ends the thread."""
        self._loop.stop(timeout=2.0)

    def _run_once(self) -> float:
        if self._cancels:
            self._wakeups.publish_cancel([self._cancels.popleft() for _ in range(len(self._cancels))])
        if not self._work.is_set():
            return _IDLE
        # The first one goes out at once; in a rush one every few milliseconds says as much as one each.
        early = self._published_at + _SPACING - boottime()
        if early > 0:
            return early
        self._work.clear()
        self._wakeups.publish_coordinator()
        self._published_at = boottime()
        return _IDLE
