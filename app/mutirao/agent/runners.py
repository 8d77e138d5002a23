"""The agent's side of running: hands tasks to the runners, hears how they ended, keeps to the lease."""

from __future__ import annotations

import os
import select
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from mutirao.agent import progress
from mutirao.agent.crew import Asked, Crew
from mutirao.agent.frames import Finished, Task
from mutirao.agent.guard_link import GuardLink
from mutirao.agent.guard_watch import GuardWatch
from mutirao.agent.lease import Lease
from mutirao.agent.ledger import Ledger
from mutirao.agent.progress import Progress
from mutirao.agent.search import Search
from mutirao.agent.shared import Shared
from mutirao.agent.taskqueue import TaskQueue
from mutirao.domain.job import Outcome
from mutirao.errors import Unavailable
from mutirao.registry import HandlerConfig

__all__ = ["Asked", "Finished", "Runners", "Task"]

_SECOND = 1_000_000_000
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
        self._search: Search | None = None
        self._sift = False  # something queued has a verdict
        self._guard: GuardWatch | None = None
        self._crew: Crew | None = None
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # Not in close(): another thread may be about to wake us.
        weakref.finalize(self, os.close, self._wakeup)
        self._lock = threading.RLock()

    def start(self) -> None:
        """Starts guard and runners; nothing can be submitted before the first `extend`."""
        with self._lock:
            link = GuardLink(self._node_id, self._file, self._directory)
            crew = Crew(self._count, self._config, self._shared, self._queue, self._ledger, link)
            crew.epoll.register(link.control, select.EPOLLIN)
            crew.epoll.register(self._wakeup, select.EPOLLIN)
            self._guard, self._crew = GuardWatch(self._node_id, link, self._lease), crew
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
            guard, crew = self._working()
            if not self._lease.fenced:
                self._lease.expire()
            fence = guard.await_fence()
            crew.dismiss()
            self._queue.take_back()
            self._ledger.forget()
            self._search, self._sift = None, False
            self._lease.renew(deadline, fence)
            guard.link.rearm(fence)
            crew.fill()

    def _working(self) -> tuple[GuardWatch, Crew]:
        if self._guard is None or self._crew is None or not self.alive:
            raise Unavailable("the guard is dead")
        return self._guard, self._crew

    # -- handing over

    def submit(self, tasks: Sequence[Task]) -> int:
        """Queues tasks; how many, from the front, there was room for (none without a lease)."""
        with self._lock:
            if not self.alive or not self._lease.holds or self._search is not None:
                return 0
            for count, task in enumerate(tasks):
                if not self._queue.offer(self._ledger.next, task):
                    return count
                self._ledger.admit(task)
            return len(tasks)

    def withdraw(self) -> list[Task]:
        """Takes back every task that no runner has taken; none of them has started or will."""
        with self._lock:
            if self._crew is None:
                return []
            taken = self._queue.take_back()
            if self._search is not None:
                taken, self._search.hand = self._search.hand, []
            tasks = [self._ledger.strike(sequence) for sequence in taken]
            return [task for task in tasks if task is not None]

    def kill(self, job_id: UUID, attempt: int, outcome: Outcome) -> bool:
        """Ends that attempt and no other; its Finished follows. False if it is not here (any more)."""
        with self._lock:
            sequence = self._ledger.find(job_id, attempt)
            if sequence is None or self._crew is None:
                return False
            self._ledger.verdicts[sequence] = outcome
            self._sift |= sequence not in self._crew.held()
            self._crew.enforce()
        self.wake()
        return True

    def running(self) -> dict[tuple[UUID, int], float]:
        """Everything handed over whose end `poll` has not returned, and when it started (0.0: not yet)."""
        with self._lock:
            if self._crew is None:
                return {}
            held = self._crew.held()
            known = {
                (task.job_id, task.attempt): held.get(sequence, 0) / _SECOND
                for sequence, task in self._ledger.tasks.items()
            }
            return known | {(done.job_id, done.attempt): done.started for done in self._crew.done}

    @property
    def outstanding(self) -> int:
        """How many tasks are queued or running."""
        return len(self._ledger.tasks)

    @property
    def pending(self) -> int:
        """How many tasks are queued and not started."""
        with self._lock:
            held = self._crew.held() if self._crew is not None else {}
            return len(self._ledger.tasks.keys() - held.keys())

    @property
    def idle(self) -> int:
        """How many runners have nothing to do."""
        seats = self._crew.seats if self._crew is not None else []
        return max(0, sum(seat.ready for seat in seats) - self.outstanding)

    # -- hearing back

    def wake(self) -> None:
        """Makes `poll` return early, or the next one."""
        os.eventfd_write(self._wakeup, 1)

    def poll(self, timeout: float) -> list[Finished]:
        """What has ended, as soon as something has, else after `timeout`; also kills what is overdue."""
        until = time.monotonic() + timeout
        while True:
            crew = self._crew
            if crew is None or self.fenced:
                return self._poll_fenced(until)
            ready = {descriptor for descriptor, _ in crew.epoll.poll(self._patience(crew, until))}
            with self._lock:
                self._collect(crew, ready)
                finished, crew.done = crew.done, []
            if finished or self._was_woken(ready) or self.fenced or time.monotonic() >= until:
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
        left = max(0.0, min(_TICK, until - time.monotonic()))
        ready, _, _ = select.select([self._wakeup], [], [], left)
        self._was_woken(set(ready))
        return []

    def _patience(self, crew: Crew, until: float) -> float:
        if crew.done or (self._sift and self._search is None):
            return 0.0
        left = crew.outputs.patience(max(0.0, until - time.monotonic()))
        quiet = not self._ledger.tasks and all(seat.stream for seat in crew.seats)
        return left if quiet else min(left, _TICK)

    def _was_woken(self, ready: set[int]) -> bool:
        if self._wakeup not in ready:
            return False
        with suppress(BlockingIOError):
            os.eventfd_read(self._wakeup)
        return True

    def _collect(self, crew: Crew, ready: set[int]) -> None:
        guard = self._guard
        if guard is None or self.fenced or guard.ended_if_stuck():
            return
        crew.hear(ready)
        if guard.link.control.fileno() in ready:
            self._hear_guard(guard, crew)
        if crew.asked and self.on_asked is not None:
            self.on_asked()
        crew.enforce()
        if self._search is not None and self._search.over:
            self._search.conclude()
            self._search = None
        if self._sift and self._search is None:
            self._sift = False
            crew.requeue(self._queue.take_back())
        crew.fill()

    def _hear_guard(self, guard: GuardWatch, crew: Crew) -> None:
        for name, numbers in guard.link.reports():
            guard.note(name, numbers)
            if name == "kept":
                crew.seats[numbers[0]].killing = None
            elif name == "exited" and crew.exited(*numbers) and self._ledger.tasks and not self._search:
                self._search = Search(crew, self._queue, self._ledger)
        if guard.link.hung_up:
            guard.mourn()

    # -- what handlers ask and tell

    def asked(self) -> list[Asked]:
        """The questions that came since the last call; each needs its `answer`."""
        with self._lock:
            if self._crew is None:
                return []
            asked, self._crew.asked = self._crew.asked, []
            return asked

    def answer(self, asked: Asked, first: bool | None) -> None:
        """Tells the runner that asked, if it is still there; None says that its attempt is over."""
        with self._lock:
            if self._crew is not None:
                self._crew.answer(asked, first)

    def progress(self) -> dict[tuple[UUID, int], Progress]:
        """How far the running attempts are, of those that have said so."""
        with self._lock:
            if self._crew is None:
                return {}
            return {
                (task.job_id, task.attempt): said
                for seat in self._crew.seats
                if (task := self._ledger.tasks.get(sequence := self._shared.slot(seat.index)[0]))
                and (said := progress.read(self._shared, seat.index, sequence))
            }

    def close(self) -> None:
        """Kills everything and returns once it is reaped; asking for more afterwards does no harm."""
        with self._lock:
            guard, crew = self._guard, self._crew
            self._guard, self._crew = None, None
            if guard is None or crew is None:
                return
            guard.close()
            crew.close()
            self._queue.close()
            os.close(self._file)
