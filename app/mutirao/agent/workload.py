"""How much a node wants to hold, by what its attempts have lately taken."""

from __future__ import annotations

from mutirao.domain.placement import prefetch
from mutirao.loop import boottime

# A claimed attempt waits at most about this long for its runner.
CLAIM_HORIZON = 0.1
CLAIMS_PER_SLOT = 200
# Nothing ended for this long while every runner is busy: hold no more than what runs.
STALLED_AFTER = 1.0
_NEW = 0.2
# Taken for an attempt's time until one has ended: a few jobs each, so that the first ones are spread.
FIRST_GUESS = 0.25


class Workload:
    """A moving mean of attempt times; one thread writes, any may read."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._mean = FIRST_GUESS
        self._measured = False
        self._ended_at = boottime()

    def ended(self, seconds: float, count: int) -> None:
        """Takes in `count` attempts that took `seconds` in all."""
        mean = max(seconds / count, 1e-5)
        weight = 1.0 - (1.0 - _NEW) ** count if self._measured else 1.0
        self._measured = True
        self._mean += weight * (mean - self._mean)
        self._ended_at = boottime()

    def idle(self) -> None:
        """There is a free runner now: nothing is stalled."""
        self._ended_at = boottime()

    def stalled(self) -> bool:
        """True when every runner has been busy, and nothing has ended, for a while."""
        return boottime() - self._ended_at > STALLED_AFTER

    def capacity(self, running: int) -> int:
        """How many jobs this node wants to hold, given how many it runs now."""
        if running >= self._slots and self.stalled():
            return self._slots
        return prefetch(self._slots, self._mean)

    def window(self) -> int:
        """How many attempts may be claimed and not ended at a time."""
        return prefetch(self._slots, self._mean, horizon=CLAIM_HORIZON, most_per_slot=CLAIMS_PER_SLOT)
