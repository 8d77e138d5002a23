"""What readers are told about jobs, nodes and the cluster: plain values that encode to JSON exactly.

`msgspec.Raw` holds JSON text as stored, so that no number changes on the way through.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

import msgspec

from mutirao.domain.job import Backoff

T = TypeVar("T")


class _View(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all views; immutable."""


class JobSummary(_View, frozen=True):
    """A job in a list."""

    id: UUID
    state: str
    cancelling: bool
    handler: str
    queue: str
    priority: int
    attempt: int
    max_attempts: int
    node: UUID | None
    node_name: str | None
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class AttemptView(_View, frozen=True):
    """One attempt; `outcome` and `ended_at` are None while it runs."""

    attempt: int
    node: UUID
    node_name: str | None
    incarnation: int
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None
    seconds: float | None
    error: msgspec.Raw | None


class AuditView(_View, frozen=True):
    """One line of a job's history."""

    at: datetime
    attempt: int
    event: str
    from_state: str | None
    to_state: str | None
    actor: str
    term: int | None
    node: UUID | None
    incarnation: int | None
    detail: msgspec.Raw | None


class JobView(JobSummary, frozen=True):
    """Everything about one job, its attempts and its history included."""

    payload: msgspec.Raw
    max_retries: int
    backoff: Backoff
    timeout: float
    idempotency_key: str | None
    submitted_by: str
    traceparent: str
    queued_at: datetime | None
    assigned_at: datetime | None
    cancel_requested_at: datetime | None
    discarded_at: datetime | None
    progress: float | None
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
    created_at: datetime
    finished_at: datetime
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
    registered_at: datetime


class StatusView(_View, frozen=True):
    """The cluster at a glance; rates cover the last hour's attempts."""

    term: int
    holder: str
    leader: str | None
    nodes: list[NodeView]
    counts: dict[str, int]
    counted_at: datetime | None
    queue_length: int
    attempts_ended: int
    success_rate: float | None
    mean_seconds: float | None
    dead_letters: int
    recent_jobs: list[JobSummary]


class ContractView(_View, frozen=True):
    """A handler's published contract, the newest one that a live node carries."""

    handler: str
    fingerprint: str
    description: str
    payload_schema: dict[str, Any]
    result_schema: dict[str, Any]
    defaults: dict[str, Any]


class JobFilter(_View, frozen=True):
    """Which jobs a list shows; None means any."""

    state: str | None = None
    handler: str | None = None
    queue: str | None = None
