"""The search for a task that a runner took and died with before it could say so."""

from __future__ import annotations

from mutirao.agent.crew import Crew
from mutirao.agent.ledger import Ledger
from mutirao.agent.taskqueue import TaskQueue
from mutirao.logs import get_logger

log = get_logger(__name__)


class Search:
    """Finds such tasks for certain, by no clock: with the queue emptied, whoever says nothing is killed.

    What is then nowhere never started, since a runner says what it took before it does anything with it.
    """

    def __init__(self, crew: Crew, queue: TaskQueue, ledger: Ledger) -> None:
        self._crew = crew
        self._ledger = ledger
        self.hand = queue.take_back()
        for seat in crew.seats:
            if not crew.holds(seat):
                crew.kill(seat, 0)

    @property
    def over(self) -> bool:
        """Whether every runner in question is dead or has said what it holds."""
        return all(seat.killing is None for seat in self._crew.seats)

    def conclude(self) -> None:
        """Queues again, in their order, what was in hand and what was lost."""
        # What moves on meanwhile goes from a slot to a report: looked at in this order, it is seen.
        held = self._crew.held()
        for seat in self._crew.seats:
            self._crew.listen(seat, to_the_end=True)
        lost = self._ledger.tasks.keys() - held.keys() - set(self.hand)
        if lost:
            log.warning("tasks_requeued", count=len(lost))
        self._crew.requeue(sorted([*self.hand, *lost]))
