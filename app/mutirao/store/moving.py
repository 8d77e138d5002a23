"""What the end of an incarnation meant for its jobs, told to the metrics once it is committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mutirao import metrics
from mutirao.domain.job import Outcome, State


def moved_on(rows: Sequence[Any]) -> int:
    """How many jobs the rows of `give_back_superseded` speak of; their running attempts count as lost."""
    for row in rows:
        if row.state == State.RUNNING:
            metrics.attempt_ended(row.handler, Outcome.NODE_LOST, led_to=row.next, count=row.jobs)
    return sum(row.jobs for row in rows)
