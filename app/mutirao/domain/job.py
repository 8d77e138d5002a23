"""A job's life: its states, and the one table of legal transitions that SQL and tests share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

# What a job may ask for, by its submission or by its handler's defaults.
QUEUE_NAME = r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}$"
MOST_RETRIES = 100
LONGEST = 366 * 86400.0  # any of its times, in seconds


class State(StrEnum):
    """Where a job is; exactly one at any time (I1)."""

    WAITING = "waiting"
    SCHEDULED = "scheduled"
    QUEUED = "queued"
    ASSIGNED = "assigned"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"


LIVE = frozenset({State.WAITING, State.SCHEDULED, State.QUEUED, State.ASSIGNED, State.RUNNING})
ENDED = frozenset({State.SUCCEEDED, State.DEAD, State.CANCELLED})

TRANSITIONS: Mapping[State | None, frozenset[State]] = {
    # A submission is accepted: due now, due later, or waiting for its parents.
    None: frozenset({State.QUEUED, State.SCHEDULED, State.WAITING}),
    # All parents ended; or a parent failed; or cancelled.
    State.WAITING: frozenset({State.QUEUED, State.SCHEDULED, State.DEAD, State.CANCELLED}),
    # Due; or expired; or cancelled.
    State.SCHEDULED: frozenset({State.QUEUED, State.DEAD, State.CANCELLED}),
    # Given to a node; or expired; or cancelled.
    State.QUEUED: frozenset({State.ASSIGNED, State.DEAD, State.CANCELLED}),
    # Claimed by its node; or taken back, handed back, its node lost; or cancelled.
    State.ASSIGNED: frozenset({State.RUNNING, State.QUEUED, State.CANCELLED}),
    # The attempt's end; a retry waits in scheduled; a lost node's or never started attempt queues at once.
    State.RUNNING: frozenset({State.SUCCEEDED, State.DEAD, State.CANCELLED, State.SCHEDULED, State.QUEUED}),
    # A manual replay raises the bound on attempts.
    State.DEAD: frozenset({State.QUEUED}),
    State.SUCCEEDED: frozenset(),
    State.CANCELLED: frozenset(),
}


def legal(before: State | None, after: State) -> bool:
    """True only for a transition in TRANSITIONS."""
    return after in TRANSITIONS[before]


class Outcome(StrEnum):
    """How one attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    REFUSED = "refused"
    RUNNER_DIED = "runner_died"
    NODE_LOST = "node_lost"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Bounds of the wait before a retry, in seconds: full jitter over base * 2**n, never above cap."""

    base: float = 1.0
    cap: float = 300.0


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job as accepted at the door, not yet stored; `payload` is JSON text, exactly as validated.

    `contract` is the id of the one it was found to fit; 0 is none yet.
    """

    id: UUID
    handler: str
    payload: str
    queue: str = "default"
    priority: int = 5
    max_retries: int = 3
    backoff: Backoff = Backoff()
    timeout: float = 300.0
    run_at: datetime | None = None
    idempotency_key: str | None = None
    request_hash: bytes = b""
    submitted_by: str = ""
    traceparent: str = ""
    contract: int = 0


@dataclass(frozen=True, slots=True)
class Submitted:
    """The answer to one submission: the job's id and state; `created` is False for a repeated key."""

    id: UUID
    state: State
    created: bool
