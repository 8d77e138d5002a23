"""What follows a failed attempt: pure decisions, applied by whoever acknowledges."""

from __future__ import annotations

import random
from dataclasses import dataclass

from mutirao.domain.job import Backoff, Outcome

# Nothing a second try could mend: the contract refused, the handler gave up, or someone cancelled.
_FINAL = frozenset({Outcome.SUCCEEDED, Outcome.REFUSED, Outcome.CANCELLED})
# The handler is not to blame, so its next attempt need not wait.
_AT_ONCE = frozenset({Outcome.NODE_LOST, Outcome.INTERRUPTED})


@dataclass(frozen=True, slots=True)
class Attempt:
    """One ended attempt: its number (from 1), the bound on attempts and how it ended."""

    number: int
    bound: int
    outcome: Outcome
    retry_after: float | None = None
    discard: bool = False


def ceiling(backoff: Backoff, failures: int) -> float:
    """The longest wait after `failures` failed attempts (≥ 1), in seconds: base * 2**(failures-1), capped."""
    doublings = min(failures - 1, 62)
    return min(backoff.cap, backoff.base * float(2**doublings))


def delay(attempt: Attempt, backoff: Backoff, uniform: random.Random) -> float | None:
    """Seconds until the next attempt may start, drawn with full jitter; None means the job has ended."""
    if attempt.discard or attempt.outcome in _FINAL or attempt.number >= attempt.bound:
        return None
    if attempt.retry_after is not None:
        return max(0.0, attempt.retry_after)
    if attempt.outcome in _AT_ONCE:
        return 0.0
    return uniform.uniform(0.0, ceiling(backoff, attempt.number))
