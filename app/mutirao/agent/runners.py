"""The agent's side of running: hands tasks to the runners, hears how they ended, keeps to the lease."""

from __future__ import annotations

import os
import select
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import msgspec

from mutirao.agent.frames import Finished, Report, Task, pack_frame
from mutirao.agent.guard_link import GuardLink
from mutirao.agent.ledger import Ledger
from mutirao.agent.proof import end_marked
from mutirao.agent.seat import Seat
from mutirao.agent.shared import Shared, boottime_ns
from mutirao.agent.taskqueue import TaskQueue
from mutirao.domain.job import Outcome
from mutirao.errors import Unavailable
from mutirao.logs import get_logger
from mutirao.registry import HandlerConfig

__all__ = ["Finished", "Runners", "Task"]

log = get_logger(__name__)
_SECOND = 1_000_000_000
_TICK = 0.1  # how late a timeout may be noticed
_REAPED_WITHIN = 10.0


class Runners:
    """Runs tasks in processes that die with the lease, the guard or the agent, whichever ends first.

    Every method may be called from any thread, `poll` from one only.
    """

    def __init__(self, node_id: UUID, count: int, config: HandlerConfig, runtime_dir: Path) -> None:
        self._node_id = node_id
        self._greeting = pack_frame(config)
        self._directory = runtime_dir
        self._file = Shared.create(count)
        self._shared = Shared(self._file)
        self._queue = TaskQueue()
        self._ledger = Ledger()
        self._seats = [Seat(index) for index in range(count)]
        self._by_stream: dict[int, Seat] = {}
        self._done: list[Finished] = []
        self._hand: list[int] | None = None  # taken off the queue while lost tasks are looked for
        self._condemned_in_queue = False
        self._link: GuardLink | None = None
        self._guard_lost = False
        self._fences = 0  # how many of the guard's fences have been rearmed
        self._epoll = select.epoll()
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wakeup, select.EPOLLIN)
        weakref.finalize(self, os.close, self._wakeup)
        self._lock = threading.RLock()
        self._lease = threading.Lock()

    def start(self) -> None:
        """Starts guard and runners; nothing can be submitted before the first `extend`."""
        with self._lock:
            self._link = GuardLink(self._node_id, self._file, self._directory)
            self._epoll.register(self._link.control, select.EPOLLIN)
            for seat in self._seats:
                self._spawn(seat)

    # -- the lease

    @property
    def fenced(self) -> bool:
        """True from the moment the guard kills for the deadline until `rearm`; and when there is no guard."""
        return not self.alive or self._shared.fences != self._fences

    @property
    def alive(self) -> bool:
        """Whether the guard lives; without it everything is dead and this object is of no more use."""
        return self._link is not None and not self._guard_lost and self._link.alive

    @property
    def guard_pid(self) -> int:
        """The guard's process; 0 when there is none."""
        return self._link.pid if self._link is not None else 0

    def extend(self, deadline: float) -> None:
        """Moves the deadline (boottime seconds), either way, but never once it has passed."""
        with self._lease:
            now, current = boottime_ns(), self._shared.deadline
            if not self.fenced and (current == 0 or now < current):
                self._shared.deadline = max(1, int(deadline * _SECOND))

    def fence(self) -> None:
        """Has everything killed as at a deadline; `rearm` waits for it."""
        with self._lease:
            self._shared.deadline = 1

    def rearm(self, deadline: float) -> None:
        """Waits until all is reaped after a fence, forgets all tasks, starts anew under the new deadline."""
        with self._lock:
            link = self._required_link()
            if not self.fenced:
                self.fence()
            fence = self._await_fence(link)
            self._forget()
            with self._lease:
                self._shared.deadline = max(1, int(deadline * _SECOND))
                self._fences = fence
            link.rearm(fence)
            for seat in self._seats:
                self._spawn(seat)

    def _await_fence(self, link: GuardLink) -> int:
        until = time.monotonic() + _REAPED_WITHIN
        while (left := until - time.monotonic()) > 0 and self.alive:
            for name, numbers in link.reports(wait=left):
                if name == "fenced" and numbers[0] != self._fences:
                    return numbers[0]
        raise Unavailable("the runners are not all dead yet", hint="a process may hang in the kernel")

    def _required_link(self) -> GuardLink:
        if self._link is None or not self.alive:
            raise Unavailable("the guard is dead")
        return self._link

    def _forget(self) -> None:
        for seat in self._seats:
            self._vacate(seat)
        self._queue.take_back()
        self._ledger.forget()
        self._done.clear()
        self._hand = None

    # -- handing over

    def submit(self, tasks: Sequence[Task]) -> int:
        """Queues tasks; how many, from the front, there was room for (none without a lease)."""
        with self._lock:
            if self.fenced or self._hand is not None or self._shared.deadline <= boottime_ns():
                return 0
            for count, task in enumerate(tasks):
                if not self._queue.offer(self._ledger.next, task):
                    return count
                self._ledger.admit(task)
            return len(tasks)

    def withdraw(self) -> list[Task]:
        """Takes back every task that no runner has taken; none of them has started or will."""
        with self._lock:
            taken = self._queue.take_back() if self._hand is None else self._hand
            if self._hand is not None:
                self._hand = []
            tasks = [self._ledger.strike(sequence) for sequence in taken]
            return [task for task in tasks if task is not None]

    def kill(self, job_id: UUID, attempt: int, outcome: Outcome) -> bool:
        """Ends that attempt and no other; its Finished follows. False if it is not here (any more)."""
        with self._lock:
            sequence = self._ledger.find(job_id, attempt)
            if sequence is None:
                return False
            self._ledger.verdicts[sequence] = outcome
            self._condemned_in_queue |= sequence not in self._held()
            self._enforce()
        self.wake()
        return True

    def running(self) -> dict[tuple[UUID, int], float]:
        """Everything handed over whose end `poll` has not returned, and when it started (0.0: not yet)."""
        with self._lock:
            held = self._held()
            known = {
                (task.job_id, task.attempt): held.get(sequence, 0) / _SECOND
                for sequence, task in self._ledger.tasks.items()
            }
            return known | {(done.job_id, done.attempt): done.started for done in self._done}

    @property
    def outstanding(self) -> int:
        """How many tasks are queued or running."""
        return len(self._ledger.tasks)

    @property
    def pending(self) -> int:
        """How many tasks are queued and not started."""
        with self._lock:
            return sum(sequence not in self._held() for sequence in self._ledger.tasks)

    @property
    def idle(self) -> int:
        """How many runners have nothing to do."""
        return max(0, sum(seat.ready for seat in self._seats) - self.outstanding)

    def _held(self) -> dict[int, int]:
        slots = [self._shared.slot(seat.index) for seat in self._seats]
        return {sequence: started for sequence, started in slots if sequence}

    # -- hearing back

    def wake(self) -> None:
        """Makes `poll` return early, or the next one."""
        os.eventfd_write(self._wakeup, 1)

    def poll(self, timeout: float) -> list[Finished]:
        """What has ended, as soon as something has, else after `timeout`; also kills what is overdue."""
        until = time.monotonic() + timeout
        while True:
            if self.fenced:
                return self._poll_fenced(until)
            ready = {descriptor for descriptor, _ in self._epoll.poll(self._patience(until))}
            with self._lock:
                self._collect(ready)
                finished, self._done = self._done, []
            if finished or self._was_woken(ready) or self.fenced or time.monotonic() >= until:
                return finished

    def last_words(self) -> list[Finished]:
        """What ended before a fence and was not polled yet; the ends that nobody reported are the store's."""
        with self._lock:
            for seat in self._seats:
                self._hear(seat, all_of_it=True)
            finished, self._done = self._done, []
            return finished

    def _poll_fenced(self, until: float) -> list[Finished]:
        with self._lock:
            if self._link is not None and not self.alive:
                self._mourn_guard(self._link)
        left = max(0.0, min(_TICK, until - time.monotonic()))
        ready, _, _ = select.select([self._wakeup], [], [], left)
        self._was_woken(set(ready))
        return []

    def _patience(self, until: float) -> float:
        if self._done:
            return 0.0
        left = max(0.0, until - time.monotonic())
        quiet = not self._ledger.tasks and all(seat.stream for seat in self._seats)
        return left if quiet else min(left, _TICK)

    def _was_woken(self, ready: set[int]) -> bool:
        if self._wakeup not in ready:
            return False
        with suppress(BlockingIOError):
            os.eventfd_read(self._wakeup)
        return True

    def _collect(self, ready: set[int]) -> None:
        link = self._link
        if link is None or self.fenced:
            return
        for descriptor in ready:
            if seat := self._by_stream.get(descriptor):
                self._hear(seat)
        if link.control.fileno() in ready:
            self._hear_guard(link)
        self._enforce()
        if self._condemned_in_queue and self._hand is None:
            self._condemned_in_queue = False
            self._requeue(self._queue.take_back())
        if self._hand is not None and all(seat.killing is None for seat in self._seats):
            self._end_search()
        now = time.monotonic()
        for seat in self._seats:
            if seat.stream is None and seat.spawn_at <= now:
                self._spawn(seat)

    def _hear(self, seat: Seat, *, all_of_it: bool = False) -> None:
        try:
            for report in seat.reports(all_of_them=all_of_it):
                self._take(seat, report)
        except (ValueError, msgspec.MsgspecError):
            log.error("runner_incoherent", runner=seat.index)
            self._kill(seat, self._shared.slot(seat.index)[0])
        if seat.ended:
            self._stop_listening(seat)

    def _take(self, seat: Seat, report: Report) -> None:
        if report.sequence == 0:
            seat.ready = report.error is None
            if report.error is not None:
                log.error("runner_without_handlers", runner=seat.index, error=report.error.decode())
        elif report.last:
            seat.last = report
        elif finished := self._ledger.settle(report):
            self._done.append(finished)

    def _hear_guard(self, link: GuardLink) -> None:
        for name, numbers in link.reports():
            if name == "exited":
                self._exited(self._seats[numbers[0]], numbers[1], numbers[2])
            elif name == "kept":
                self._seats[numbers[0]].killing = None
        if link.hung_up:
            self._mourn_guard(link)

    def _mourn_guard(self, link: GuardLink) -> None:
        """Runners die with their guard, what they have started may not."""
        if not self._guard_lost:
            self._guard_lost = True
            log.critical("guard_died", pid=link.pid)
            end_marked(self._node_id, grace=0.0)

    def _exited(self, seat: Seat, status: int, held: int) -> None:
        self._hear(seat, all_of_it=True)
        if seat.last is not None:
            finished = self._ledger.settle(seat.last)
        else:
            started = self._shared.slot(seat.index)[1] / _SECOND
            finished = self._ledger.end(held, status, started, boottime_ns() / _SECOND)
        if finished is not None:
            self._done.append(finished)
        surprising = held == 0 and seat.ready and seat.killing != 0
        self._vacate(seat)
        if surprising and self._hand is None and self._ledger.tasks:
            self._begin_search()

    # -- runners

    def _spawn(self, seat: Seat) -> None:
        link = self._link
        if link is None:
            return
        self._shared.vacate(seat.index)
        with seat.take(self._greeting) as theirs:
            link.spawn(seat.index, self._queue.receiving, theirs)
        if seat.stream is not None:
            self._by_stream[seat.stream.fileno()] = seat
            self._epoll.register(seat.stream, select.EPOLLIN)

    def _stop_listening(self, seat: Seat) -> None:
        if seat.stream is not None and self._by_stream.pop(seat.stream.fileno(), None) is not None:
            self._epoll.unregister(seat.stream)

    def _vacate(self, seat: Seat) -> None:
        self._stop_listening(seat)
        seat.leave(time.monotonic())

    def _kill(self, seat: Seat, sequence: int) -> None:
        if self._link is not None and seat.stream is not None and seat.killing is None:
            seat.killing = sequence
            self._link.kill(seat.index, sequence)

    def _enforce(self) -> None:
        """Kills what has a verdict, and what has run longer than it may."""
        now = boottime_ns()
        for seat in self._seats:
            sequence, started = self._shared.slot(seat.index)
            task = self._ledger.tasks.get(sequence)
            if task is None or started == 0:
                continue
            if now - started > task.timeout * _SECOND:
                self._ledger.verdicts.setdefault(sequence, Outcome.TIMED_OUT)
            if sequence in self._ledger.verdicts:
                self._kill(seat, sequence)

    # -- a task that a runner took and died with before it could say so

    def _begin_search(self) -> None:
        """Empties the queue and has each seemingly idle runner killed, unless it does hold a task."""
        self._hand = self._queue.take_back()
        for seat in self._seats:
            if self._shared.slot(seat.index)[0] == 0:
                self._kill(seat, 0)

    def _end_search(self) -> None:
        """Queues again what is nowhere: it never started, since its runner would have said so first."""
        hand, self._hand = self._hand or [], None
        held = self._held()
        for seat in self._seats:
            self._hear(seat, all_of_it=True)
        lost = sorted(self._ledger.tasks.keys() - held.keys() - set(hand))
        if lost:
            log.warning("tasks_requeued", count=len(lost))
        self._requeue(sorted(hand + lost))

    def _requeue(self, sequences: list[int]) -> None:
        """Puts tasks back in their order, but for those that have a verdict."""
        for sequence in sequences:
            task = self._ledger.tasks.get(sequence)
            if task is None:
                continue
            condemned = sequence in self._ledger.verdicts
            if condemned or not self._queue.offer(sequence, task):
                finished = self._ledger.end(sequence)
                if finished is not None:
                    self._done.append(finished)

    def close(self) -> None:
        """Kills everything and returns once it is reaped; asking for more afterwards does no harm."""
        with self._lock:
            link, self._link = self._link, None
            if link is None:
                return
            if not link.close(_REAPED_WITHIN):
                end_marked(self._node_id, grace=0.0)
            for seat in self._seats:
                self._vacate(seat)
            self._queue.close()
            self._epoll.close()
            os.close(self._file)
