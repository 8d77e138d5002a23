"""The agent's side of running: hands tasks to the runners, hears how they ended, keeps to the lease."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from uuid import UUID

from mutirao.agent.alarm import Alarm
from mutirao.agent.crew import Crew
from mutirao.agent.desk import Desk
from mutirao.agent.frames import Finished, Task
from mutirao.agent.guard_link import GuardLink
from mutirao.agent.guard_watch import GuardWatch
from mutirao.agent.lease import Lease
from mutirao.agent.ledger import Ledger
from mutirao.agent.progress import Progress
from mutirao.agent.questions import Asked
from mutirao.agent.shared import Shared
from mutirao.agent.taskqueue import TaskQueue
from mutirao.domain.job import Outcome
from mutirao.errors import Unavailable
from mutirao.registry import HandlerConfig

__all__ = ["Asked", "Finished", "Runners", "Task"]

_TICK = 0.1  # how late a timeout may be noticed


class Runners:
    """Runs tasks in processes that die with the lease, the guard or the agent, whichever ends first.

    Every method may be called from any thread, `poll` from one only. `graces` says for how many seconds
    which handler may go on after a cancel; `on_asked` is called when `asked` has something new.
    """

    on_asked: Callable[[], None] | None = None

    def __init__(
        self,
        node_id: UUID,
        count: int,
        config: HandlerConfig,
        runtime_dir: Path,
        graces: Mapping[str, float] | None = None,
    ) -> None:
        self._node_id = node_id
        self._count = count
        self._config = config
        self._directory = runtime_dir
        self._file = Shared.create(count)
        self._shared = Shared(self._file)
        self._lease = Lease(self._shared)
        self._queue = TaskQueue()
        self._ledger = Ledger(graces or {})
        self._guard: GuardWatch | None = None
        self._crew: Crew | None = None
        self._desk: Desk | None = None
        self._alarm = Alarm()
        self._lock = threading.RLock()

    def start(self) -> None:
        """Starts guard and runners; nothing can be submitted before the first `extend`."""
        with self._lock:
            link = GuardLink(self._node_id, self._file, self._directory)
            crew = Crew(self._count, self._config, self._shared, self._queue, self._ledger, link)
            crew.epoll.register(link.control, select.EPOLLIN)
            crew.epoll.register(self._alarm, select.EPOLLIN)
            self._guard, self._crew = GuardWatch(self._node_id, link, self._lease), crew
            self._desk = Desk(self._queue, self._ledger, crew)
            crew.fill()

    # -- the lease

    @property
    def guard_pid(self) -> int:
        """The guard's process; 0 when there is none."""
        return self._guard.link.pid if self._guard is not None else 0

    @property
    def alive(self) -> bool:
        """Whether the guard lives; without it everything is dead and this object is of no more use."""
        return self._guard is not None and self._guard.alive

    @property
    def fenced(self) -> bool:
        """True from the moment the guard kills for the deadline until `rearm`; and when there is no guard."""
        return not self.alive or self._lease.fenced

    def extend(self, deadline: float) -> None:
        """Moves the deadline (boottime seconds), either way, but never once it has passed."""
        self._lease.extend(deadline)

    def fence(self) -> None:
        """Has everything killed as at a deadline; `rearm` waits for it."""
        self._lease.expire()

    def rearm(self, deadline: float) -> None:
        """Waits until all is reaped after a fence, forgets all tasks, starts anew under the new deadline.

        Raises Unavailable if that takes too long, or the guard is dead.
        """
        with self._lock:
            guard, crew, desk = self._working()
            if not self._lease.fenced:
                self._lease.expire()
            fence = guard.await_fence()
            crew.dismiss()
            desk.clear()
            self._lease.renew(deadline, fence)
            guard.link.rearm(fence)
            crew.fill()

    def _working(self) -> tuple[GuardWatch, Crew, Desk]:
        if self._guard is None or self._crew is None or self._desk is None or not self.alive:
            raise Unavailable("the guard is dead")
        return self._guard, self._crew, self._desk

    # -- handing over

    def submit(self, tasks: Sequence[Task]) -> int:
        """Queues tasks; how many, from the front, there was room for (none without a lease)."""
        with self._lock:
            if self._desk is None or not self.alive or not self._lease.holds:
                return 0
            return self._desk.submit(tasks)

    def withdraw(self) -> list[Task]:
        """Takes back every task that no runner has taken; none of them has started or will."""
        with self._lock:
            return self._desk.withdraw() if self._desk is not None else []

    def kill(self, job_id: UUID, attempt: int, outcome: Outcome) -> bool:
        """Ends that attempt and no other; its Finished follows. False if it is not here (any more)."""
        with self._lock:
            if self._desk is None or not self._desk.condemn(job_id, attempt, outcome):
                return False
        self.wake()
        return True

    def running(self) -> dict[tuple[UUID, int], float]:
        """Everything handed over whose end `poll` has not returned, and when it started (0.0: not yet)."""
        with self._lock:
            return self._desk.running() if self._desk is not None else {}

    @property
    def outstanding(self) -> int:
        """How many tasks are queued or running."""
        return len(self._ledger.tasks)

    @property
    def pending(self) -> int:
        """How many tasks are queued and not started."""
        with self._lock:
            return self._desk.pending if self._desk is not None else 0

    @property
    def idle(self) -> int:
        """How many runners have nothing to do."""
        seats = self._crew.seats if self._crew is not None else []
        return max(0, sum(seat.ready for seat in seats) - self.outstanding)

    @property
    def able(self) -> bool:
        """False while no runner gets ready, again and again: whatever is taken then would only wait."""
        seats = self._crew.seats if self._crew is not None else []
        return not seats or not all(seat.failing for seat in seats)

    # -- hearing back

    def wake(self) -> None:
        """Makes `poll` return early, or the next one."""
        self._alarm.ring()

    def poll(self, timeout: float) -> list[Finished]:
        """What has ended, as soon as something has, else after `timeout`; also kills what is overdue."""
        until = time.monotonic() + timeout
        while True:
            crew, desk = self._crew, self._desk
            if crew is None or desk is None or self.fenced:
                return self._poll_fenced(until)
            ready = {descriptor for descriptor, _ in crew.epoll.poll(self._patience(crew, desk, until))}
            with self._lock:
                self._collect(crew, desk, ready)
                finished, crew.done = crew.done, []
            if finished or self._woken(ready) or self.fenced or time.monotonic() >= until:
                return finished

    def last_words(self) -> list[Finished]:
        """What ended before a fence and was not polled yet; the ends that nobody reported are the store's."""
        with self._lock:
            crew = self._crew
            if crew is None:
                return []
            for seat in crew.seats:
                crew.listen(seat, to_the_end=True)
            finished, crew.done = crew.done, []
            return finished

    def _poll_fenced(self, until: float) -> list[Finished]:
        with self._lock:
            if self._guard is not None and not self.alive:
                self._guard.mourn()
        self._alarm.wait(max(0.0, min(_TICK, until - time.monotonic())))
        return []

    def _patience(self, crew: Crew, desk: Desk, until: float) -> float:
        if crew.done or desk.hurried:
            return 0.0
        left = crew.outputs.patience(max(0.0, until - time.monotonic()))
        quiet = not self._ledger.tasks and all(seat.stream for seat in crew.seats)
        return left if quiet else min(left, _TICK)

    def _woken(self, ready: set[int]) -> bool:
        return self._alarm.fileno() in ready and self._alarm.heard()

    def _collect(self, crew: Crew, desk: Desk, ready: set[int]) -> None:
        guard = self._guard
        if guard is None or self.fenced or guard.ended_if_stuck():
            return
        crew.hear(ready)
        if guard.link.control.fileno() in ready:
            self._hear_guard(guard, crew, desk)
        if crew.questions and self.on_asked is not None:
            self.on_asked()
        crew.enforce()
        desk.tidy()
        crew.fill()

    @staticmethod
    def _hear_guard(guard: GuardWatch, crew: Crew, desk: Desk) -> None:
        for name, numbers in guard.link.reports():
            guard.note(name, numbers)
            if name == "kept":
                crew.seats[numbers[0]].killing = None
            elif name == "exited" and crew.exited(*numbers):
                desk.search()
        if guard.link.hung_up:
            guard.mourn()

    # -- what handlers ask and tell

    def asked(self) -> list[Asked]:
        """The questions that came since the last call; each needs its `answer`."""
        with self._lock:
            return self._crew.questions.take() if self._crew is not None else []

    def answer(self, asked: Asked, first: bool | None) -> None:
        """Tells the runner that asked, if it is still there; None says that its attempt is over."""
        with self._lock:
            if self._crew is not None:
                self._crew.questions.answer(asked, first)

    def progress(self) -> dict[tuple[UUID, int], Progress]:
        """How far the running attempts are, of those that have said so."""
        with self._lock:
            return self._crew.progress() if self._crew is not None else {}

    def close(self) -> None:
        """Kills everything and returns once it is reaped; asking for more afterwards does no harm."""
        with self._lock:
            guard, crew = self._guard, self._crew
            self._guard, self._crew, self._desk = None, None, None
            if guard is None or crew is None:
                return
            guard.close()
            crew.close()
            self._queue.close()
            os.close(self._file)
