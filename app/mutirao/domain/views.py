"""What readers are told about jobs, nodes and the cluster: plain values that encode to JSON exactly.

`msgspec.Raw` holds JSON text as stored, so that no number changes on the way through.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

import msgspec

from mutirao.domain.job import Backoff, Outcome, State

T = TypeVar("T")
Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class _View(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all views; immutable."""


class JobSummary(_View, frozen=True):
    """A job in a list."""

    id: UUID
    state: State
    cancelling: bool
    handler: str
    queue: str
    priority: int
    attempt: int
    max_attempts: int
    node: UUID | None
    node_name: str | None
    created_at: Instant
    run_at: Instant
    started_at: Instant | None
    finished_at: Instant | None


class AttemptView(_View, frozen=True):
    """One attempt; `outcome` and `ended_at` are None while it runs.

    `output` is the end of what it wrote (None: nothing), `output_dropped` how many bytes came before that.
    """

    attempt: int
    node: UUID
    node_name: str | None
    incarnation: int
    started_at: Instant
    ended_at: Instant | None
    outcome: Outcome | None
    seconds: float | None
    error: msgspec.Raw | None
    output: str | None
    output_dropped: int


class AuditView(_View, frozen=True):
    """One line of the audit log: a transition, or an event that left the state alone."""

    id: int
    at: Instant
    job_id: UUID
    attempt: int
    event: str
    from_state: State | None
    to_state: State | None
    actor: str
    term: int | None
    node: UUID | None
    node_name: str | None
    incarnation: int | None
    detail: msgspec.Raw | None


class JobView(JobSummary, frozen=True):
    """Everything about one job, its attempts and its history included.

    `contract` is the id of the one its payload was last found to fit (0: none yet); `served` says whether
    a live node serves that one, so that the job can be given to it.
    """

    payload: msgspec.Raw
    max_retries: int
    backoff: Backoff
    timeout: float
    idempotency_key: str | None
    submitted_by: str
    traceparent: str
    queued_at: Instant | None
    assigned_at: Instant | None
    cancel_requested_at: Instant | None
    discarded_at: Instant | None
    progress: float | None
    progress_note: str | None
    contract: int
    served: bool
    result: msgspec.Raw | None
    error: msgspec.Raw | None
    attempts: list[AttemptView]
    audit: list[AuditView]


class DeadLetter(_View, frozen=True):
    """A dead job that waits for a decision, with its last error."""

    id: UUID
    handler: str
    queue: str
    priority: int
    attempt: int
    max_attempts: int
    created_at: Instant
    finished_at: Instant
    error: msgspec.Raw | None


class Page(_View, Generic[T], frozen=True):
    """Some items and the cursor of the next page, None on the last one."""

    items: list[T]
    next_cursor: str | None


class NodeView(_View, frozen=True):
    """One node as the store knows it; `beat_age` is in seconds by PostgreSQL's clock."""

    id: UUID
    name: str
    incarnation: int
    status: str
    role: str
    slots: int
    capacity: int | None
    redis_on: bool | None
    beat_age: float | None
    url: str
    version: str
    registered_at: Instant


class StatusView(_View, frozen=True):
    """The cluster at a glance; rates cover the last hour's attempts."""

    term: int
    holder: str
    leader: str | None
    nodes: list[NodeView]
    counts: dict[str, int]
    counted_at: Instant | None
    queue_length: int
    attempts_ended: int
    success_rate: float | None
    mean_seconds: float | None
    dead_letters: int
    recent_jobs: list[JobSummary]


class RefusalView(_View, frozen=True):
    """A node that has a handler and does not serve it: its contract cannot accept what is queued."""

    node: str
    message: str


class ContractView(_View, frozen=True):
    """A handler's published contract: the newest that a live node serves, else the last that one did.

    `nodes` are the names of those that serve it, `refusals` say who does not serve the handler and why.
    `unserved_jobs` wait under contracts of this handler that no live node serves. `accepted` is false
    while no node has ever served the handler: nothing is taken in for it.
    """

    id: int
    handler: str
    fingerprint: str
    accepted: bool
    nodes: list[str]
    refusals: list[RefusalView]
    unserved_jobs: int
    description: str
    payload_schema: dict[str, Any]
    result_schema: dict[str, Any]
    defaults: dict[str, Any]


class JobFilter(_View, frozen=True):
    """Which jobs a list shows; None means any."""

    states: Sequence[str] | None = None
    handler: str | None = None
    queue: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


class LetterFilter(_View, frozen=True):
    """Which dead letters a list shows, or a decision is about; None means any."""

    handler: str | None = None
    queue: str | None = None
    error_type: str | None = None


class AuditFilter(_View, frozen=True):
    """Which entries of the audit log are shown; None means any, `node` is an id or a name."""

    job_id: UUID | None = None
    event: str | None = None
    actor: str | None = None
    node: str | None = None
