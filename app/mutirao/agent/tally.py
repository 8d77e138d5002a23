"""What this node counts of ended attempts: for metrics at once, for the status page once a minute's share."""

from __future__ import annotations

from mutirao import metrics
from mutirao.domain.job import Outcome, State
from mutirao.store.execution import Ack, Acknowledged, Claim, ExecutionStore


class Tally:
    """Outcomes by handler since the last roll-up; for one thread."""

    def __init__(self, store: ExecutionStore) -> None:
        self._store = store
        self._counts: dict[tuple[str, Outcome], tuple[int, float]] = {}

    def add(self, claim: Claim, ack: Ack, answer: Acknowledged) -> None:
        """Counts an end that the store has applied."""
        led_to = answer.applied.get(ack.key) or _asked_for(ack)
        metrics.attempt_ended(claim.handler, ack.outcome, ack.seconds, led_to=led_to)
        count, seconds = self._counts.get((claim.handler, ack.outcome), (0, 0.0))
        self._counts[claim.handler, ack.outcome] = (count + 1, seconds + ack.seconds)

    def roll_up(self) -> None:
        """Adds what was counted to the store's sums."""
        counts, self._counts = self._counts, {}
        if counts:
            self._store.roll_up(counts)


def _asked_for(ack: Ack) -> State:
    """Where an end leads that was applied by a try whose answer was lost."""
    if ack.outcome in (Outcome.SUCCEEDED, Outcome.CANCELLED):
        return State(ack.outcome)
    return State.DEAD if ack.delay is None else State.SCHEDULED
