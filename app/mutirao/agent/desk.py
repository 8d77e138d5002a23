"""Where tasks are handed out to the runners and taken back, and the search for those that got lost."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from mutirao.agent.crew import Crew
from mutirao.agent.frames import Task
from mutirao.agent.ledger import Ledger
from mutirao.agent.search import Search
from mutirao.agent.taskqueue import TaskQueue
from mutirao.domain.job import Outcome

_SECOND = 1_000_000_000


class Desk:
    """The queue and the ledger of one crew; for one thread at a time."""

    def __init__(self, queue: TaskQueue, ledger: Ledger, crew: Crew) -> None:
        self._queue = queue
        self._ledger = ledger
        self._crew = crew
        self._search: Search | None = None
        self._sift = False  # something queued has a verdict

    def submit(self, tasks: Sequence[Task]) -> int:
        """Queues tasks; how many, from the front, there was room for (none during a search)."""
        if self._search is not None:
            return 0
        for count, task in enumerate(tasks):
            if not self._queue.offer(self._ledger.next, task):
                return count
            self._ledger.admit(task)
        return len(tasks)

    def withdraw(self) -> list[Task]:
        """Takes back every task that no runner has taken; none of them has started or will."""
        taken = self._queue.take_back()
        if self._search is not None:
            taken, self._search.hand = self._search.hand, []
        tasks = [self._ledger.strike(sequence) for sequence in taken]
        return [task for task in tasks if task is not None]

    def condemn(self, job_id: UUID, attempt: int, outcome: Outcome) -> bool:
        """Has that attempt ended, wherever it is; False if it is not here (any more)."""
        sequence = self._ledger.find(job_id, attempt)
        if sequence is None:
            return False
        self._ledger.verdicts[sequence] = outcome
        self._sift |= sequence not in self._crew.held()
        self._crew.enforce()
        return True

    def running(self) -> dict[tuple[UUID, int], float]:
        """Everything handed out whose end nobody has heard yet, and when it started (0.0: not yet)."""
        held = self._crew.held()
        known = {
            (task.job_id, task.attempt): held.get(sequence, 0) / _SECOND
            for sequence, task in self._ledger.tasks.items()
        }
        return known | {(done.job_id, done.attempt): done.started for done in self._crew.done}

    @property
    def pending(self) -> int:
        """How many tasks are queued and not started."""
        return len(self._ledger.tasks.keys() - self._crew.held().keys())

    @property
    def hurried(self) -> bool:
        """Whether `tidy` has something to do at once."""
        return self._sift and self._search is None

    def search(self) -> None:
        """A runner has died that may have taken a task without a word."""
        if self._ledger.tasks and self._search is None:
            self._search = Search(self._crew, self._queue, self._ledger)

    def tidy(self) -> None:
        """Ends a search that is over, and takes out of the queue what shall not start any more."""
        if self._search is not None and self._search.over:
            self._search.conclude()
            self._search = None
        if self.hurried:
            self._sift = False
            self._crew.requeue(self._queue.take_back())

    def clear(self) -> None:
        """Forgets every task: whoever had one is dead."""
        self._queue.take_back()
        self._ledger.forget()
        self._search, self._sift = None, False
