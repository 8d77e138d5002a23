"""A node's runners: fills their seats, listens to them, has the overdue and the condemned killed."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Collection, Iterable
from uuid import UUID

import msgspec

from mutirao.agent import progress
from mutirao.agent.frames import Finished, Question, Report, Said, pack_frame
from mutirao.agent.guard_link import GuardLink
from mutirao.agent.ledger import Ledger
from mutirao.agent.outputs import Outputs
from mutirao.agent.progress import Progress
from mutirao.agent.questions import Questions
from mutirao.agent.seat import Seat
from mutirao.agent.shared import Shared, boottime_ns
from mutirao.agent.taskqueue import TaskQueue
from mutirao.domain.job import Outcome
from mutirao.logs import get_logger
from mutirao.registry import HandlerConfig
from mutirao.tail import Output

log = get_logger(__name__)
_SECOND = 1_000_000_000
_TOLD = 2000


class Crew:
    """The seats of all runners; ends gather in `done`. For one thread at a time."""

    def __init__(
        self,
        count: int,
        config: HandlerConfig,
        shared: Shared,
        queue: TaskQueue,
        ledger: Ledger,
        link: GuardLink,
    ) -> None:
        self.seats = [Seat(index) for index in range(count)]
        self.done: list[Finished] = []
        self.epoll = select.epoll()
        self.questions = Questions(ledger)
        self.outputs = Outputs(count, shared, self.epoll)
        self._config = config
        self._shared = shared
        self._queue = queue
        self._ledger = ledger
        self._link = link
        self._by_stream: dict[int, Seat] = {}

    def fill(self) -> None:
        """Has a runner started in every seat that is due for one."""
        now = time.monotonic()
        for seat in self.seats:
            if seat.stream is None and seat.spawn_at <= now:
                self._spawn(seat)

    def dismiss(self) -> None:
        """Gives all seats up and forgets what ended in them: the guard has killed who sat there."""
        for seat in self.seats:
            self._vacate(seat)
            seat.spawn_at = 0.0
        self.done.clear()
        self.questions.take()

    def held(self) -> dict[int, int]:
        """The sequences that runners hold, and when they took them (boottime nanoseconds)."""
        slots = [self._shared.slot(seat.index) for seat in self.seats]
        return {sequence: taken for sequence, taken in slots if sequence}

    def holds(self, seat: Seat) -> bool:
        """Whether that runner says it has a task."""
        return self._shared.slot(seat.index)[0] != 0

    def progress(self) -> dict[tuple[UUID, int], Progress]:
        """How far the attempts that run are, of those that have said so."""
        return {
            (task.job_id, task.attempt): said
            for seat in self.seats
            if (task := self._ledger.tasks.get(sequence := self._shared.slot(seat.index)[0]))
            and (said := progress.read(self._shared, seat.index, sequence))
        }

    def hear(self, ready: Collection[int]) -> None:
        """Takes what has come in on those descriptors."""
        for descriptor in ready:
            if seat := self._by_stream.get(descriptor):
                self.listen(seat)
        self.outputs.hear(ready)

    def listen(self, seat: Seat, *, to_the_end: bool = False) -> None:
        """Takes what one runner has reported."""
        try:
            for said in seat.said(all_of_it=to_the_end):
                self._take(seat, said)
        except (ValueError, msgspec.MsgspecError):
            log.error("runner_incoherent", runner=seat.index)
            self.kill(seat, self._shared.slot(seat.index)[0])
        if seat.ended:
            self._stop_listening(seat)

    def _take(self, seat: Seat, said: Said) -> None:
        if isinstance(said, Question):
            self.questions.ask(seat, said)
        elif said.sequence == 0:
            self._arrive(seat, said)
        elif said.last:
            seat.last = said
        else:
            output = self.outputs.until_mark(seat.index) if said.marked else None
            self._end(self._ledger.settle(said, output))

    def _arrive(self, seat: Seat, report: Report) -> None:
        seat.ready = report.error is None
        if report.error is not None:
            log.error("runner_without_handlers", runner=seat.index, error=report.error.decode())
        elif report.marked:
            self._tell(seat, self.outputs.until_mark(seat.index))

    def _tell(self, seat: Seat, output: Output | None) -> None:
        """What was written for no job is the operator's to read."""
        if output is not None:
            log.info("runner_output", runner=seat.index, output=output.text()[-_TOLD:])

    def exited(self, index: int, status: int, sequence: int) -> bool:
        """A runner and all it left are dead. True if it may have taken a task that it did not tell of."""
        seat = self.seats[index]
        self.listen(seat, to_the_end=True)
        output = self.outputs.rest(index)
        if seat.last is not None:
            self._end(self._ledger.settle(seat.last, output))
        elif sequence:
            taken = self._shared.slot(index)[1] / _SECOND
            self._end(self._ledger.end(sequence, status, taken, boottime_ns() / _SECOND, output))
        else:
            self._tell(seat, output)
        if seat.killing is None and seat.last is None:
            log.warning("runner_died", runner=index, status=status)
        silent = sequence == 0 and seat.ready and seat.killing != 0
        self._vacate(seat)
        return silent

    def kill(self, seat: Seat, sequence: int) -> None:
        """Has the runner killed if it holds that task; with sequence 0, if it holds none."""
        if seat.stream is not None and seat.killing is None:
            seat.killing = sequence
            self._link.kill(seat.index, sequence)

    def enforce(self) -> None:
        """Has killed what has a verdict, and what has run longer than it may."""
        now = boottime_ns()
        for seat in self.seats:
            sequence, taken = self._shared.slot(seat.index)
            task = self._ledger.tasks.get(sequence)
            if task is None or taken == 0:
                continue
            overdue = now - taken > task.timeout * _SECOND
            if overdue:
                self._ledger.verdicts.setdefault(sequence, Outcome.TIMED_OUT)
            if sequence not in self._ledger.verdicts:
                continue
            if not overdue and self._ledger.spares(sequence, now):
                self._shared.cancel(seat.index, sequence)
            else:
                self.kill(seat, sequence)

    def requeue(self, sequences: Iterable[int]) -> None:
        """Puts tasks back in that order, but for those that have a verdict."""
        for sequence in sequences:
            task = self._ledger.tasks.get(sequence)
            if task is None:
                continue
            if sequence in self._ledger.verdicts or not self._queue.offer(sequence, task):
                self._end(self._ledger.end(sequence))

    def close(self) -> None:
        """Gives up seats and selector."""
        self.dismiss()
        self.epoll.close()

    def _end(self, finished: Finished | None) -> None:
        if finished is not None:
            self.done.append(finished)

    def _spawn(self, seat: Seat) -> None:
        self._shared.vacate(seat.index)
        output, mark = self.outputs.open(seat.index)
        try:
            with seat.take(pack_frame((mark, self._config))) as theirs:
                self._link.spawn(seat.index, self._queue.receiving, theirs, output)
        finally:
            os.close(output)
        if seat.stream is not None:
            self._by_stream[seat.stream.fileno()] = seat
            self.epoll.register(seat.stream, select.EPOLLIN)

    def _stop_listening(self, seat: Seat) -> None:
        if seat.stream is not None and self._by_stream.pop(seat.stream.fileno(), None) is not None:
            self.epoll.unregister(seat.stream)

    def _vacate(self, seat: Seat) -> None:
        self._stop_listening(seat)
        self.outputs.close(seat.index)
        seat.leave(time.monotonic())
