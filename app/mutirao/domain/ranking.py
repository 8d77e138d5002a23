"""The order of the queue: fixed when a job is queued, ageing by itself."""

from __future__ import annotations


def rank(ready_at: float, priority: int, aging: float) -> float:
    """Where a job stands; lower runs first.

    `ready_at` is when it became due and `aging` the head start of one step of priority, both in seconds.
    A job is never overtaken by one queued more than (priority difference) × aging after it (I7).
    """
    return ready_at - priority * aging
