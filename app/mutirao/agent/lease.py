"""The agent's hold on the lease: the deadline it may move, and the fence it cannot undo."""

from __future__ import annotations

import threading

from mutirao.agent.shared import Shared, boottime_ns

_SECOND = 1_000_000_000


class Lease:
    """The deadline in shared memory; deadlines are boottime seconds. Every method is safe in any thread."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._lock = threading.Lock()
        self._answered = 0  # the last of the guard's fences that was answered by a rearm

    @property
    def fenced(self) -> bool:
        """True from the moment the guard begins to kill until `renew`."""
        return self._shared.fences != self._answered

    @property
    def holds(self) -> bool:
        """Whether there is a deadline, and it lies ahead."""
        return not self.fenced and self._shared.deadline > boottime_ns()

    @property
    def overdue(self) -> bool:
        """True while the deadline has passed and the guard has not begun to kill."""
        return not self.fenced and 0 < self._shared.deadline <= boottime_ns()

    def extend(self, deadline: float) -> None:
        """Moves the deadline, either way, but never once it has passed."""
        with self._lock:
            current = self._shared.deadline
            if not self.fenced and (current == 0 or boottime_ns() < current):
                self._set(deadline)

    def expire(self) -> None:
        """Lets the deadline have passed."""
        with self._lock:
            self._set(0.0)

    def renew(self, deadline: float, fence: int) -> None:
        """Begins a new lease after that fence."""
        with self._lock:
            self._set(deadline)
            self._answered = fence

    def _set(self, deadline: float) -> None:
        # 0 says that none was ever set.
        self._shared.deadline = max(1, int(deadline * _SECOND))
