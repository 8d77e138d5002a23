"""Wake-ups from a thread of their own: no request ever waits for Redis, or fails with it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from uuid import UUID

from mutirao.coordination.wakeup import Wakeups
from mutirao.loop import Loop

_IDLE = 3600.0
_MAX_CANCELS = 10_000


class Waker:
    """Says that there is work or a cancel; calls made during one publication share the next."""

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self._work = threading.Event()
        self._cancels: deque[UUID] = deque(maxlen=_MAX_CANCELS)
        self._loop = Loop("waker", self._run_once)
        self._loop.start()

    def work(self) -> None:
        """There is something to plan. Returns at once; without Redis the hint is dropped."""
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
        if self._work.is_set():
            self._work.clear()
            self._wakeups.publish_coordinator()
        if self._cancels:
            self._wakeups.publish_cancel([self._cancels.popleft() for _ in range(len(self._cancels))])
        return _IDLE
