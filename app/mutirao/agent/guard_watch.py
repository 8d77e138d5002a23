"""The agent's eye on its guard: whether it lives, whether it acts at the deadline, when all are reaped."""

from __future__ import annotations

import time
from uuid import UUID

from mutirao.agent.guard_link import GuardLink
from mutirao.agent.lease import Lease
from mutirao.agent.proof import end_marked
from mutirao.errors import Unavailable
from mutirao.logs import get_logger

log = get_logger(__name__)
REAPED_WITHIN = 10.0
_OVERDUE = 2.0  # a guard that does not act for so long after the deadline is stuck


class GuardWatch:
    """One guard as long as it lives; a dead one is mourned once, with whatever it left."""

    def __init__(self, node_id: UUID, link: GuardLink, lease: Lease) -> None:
        self.link = link
        self._node_id = node_id
        self._lease = lease
        self._lost = False
        self._overdue_since: float | None = None
        self._reaped: int | None = None

    @property
    def alive(self) -> bool:
        """Whether the guard lives; without it everything is dead."""
        return not self._lost and self.link.alive

    def note(self, name: str, numbers: list[int]) -> None:
        """Takes in a report, which may say that a fence is carried out."""
        if name == "fenced":
            self._reaped = numbers[0]

    def await_fence(self) -> int:
        """The number of the fence, once all is reaped; Unavailable if that takes too long."""
        until = time.monotonic() + REAPED_WITHIN
        while self._reaped is None and (left := until - time.monotonic()) > 0 and self.alive:
            for name, numbers in self.link.reports(wait=left):
                self.note(name, numbers)
        if self._reaped is None:
            raise Unavailable("the runners are not all dead yet", hint="a process may hang in the kernel")
        fence, self._reaped = self._reaped, None
        return fence

    def ended_if_stuck(self) -> bool:
        """True when the guard is dead, by our own hand where it let the deadline pass."""
        now = time.monotonic()
        if not self._lease.overdue:
            self._overdue_since = None
        elif self._overdue_since is None:
            self._overdue_since = now
        elif now - self._overdue_since > _OVERDUE:
            self.link.destroy()
            self.mourn()
        return self._lost

    def mourn(self) -> None:
        """Runners die with their guard, what they have started may not."""
        if not self._lost:
            self._lost = True
            log.critical("guard_died", pid=self.link.pid)
            end_marked(self._node_id, grace=0.0)

    def close(self) -> None:
        """Has the guard end everything, and makes sure of it."""
        if not self.link.close(REAPED_WITHIN):
            end_marked(self._node_id, grace=0.0)
