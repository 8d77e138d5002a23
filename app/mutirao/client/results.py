"""What the client gives back: jobs as frozen, typed values, their JSON parts as Python values."""

from __future__ import annotations

from typing import Any, Protocol
from uuid import UUID

import msgspec

from mutirao.client.requests import InvalidValue
from mutirao.domain.views import AttemptView, AuditView, DeadLetter, JobView
from mutirao.errors import MutiraoError


class HasId(Protocol):
    """Anything that stands for a job: a Submitted, a Job, a JobSummary, a DeadLetter."""

    @property
    def id(self) -> UUID:
        """The job's id."""


JobRef = UUID | str | HasId


def id_of(job: JobRef) -> str:
    """The id of the job that is meant, as text; InvalidValue for a text that is none."""
    if not isinstance(job, str):
        return str(job if isinstance(job, UUID) else job.id)
    try:
        return str(UUID(job))
    except ValueError:
        raise InvalidValue("id", f"{job[:100]!r} is no job's id") from None


class Submitted(msgspec.Struct, frozen=True):
    """An accepted job; `created` is False when its key repeated an earlier request."""

    id: UUID
    state: str
    created: bool
    handler: str
    url: str


class Changed(msgspec.Struct, frozen=True):
    """A job and its state after a change (`cancelling` while its runner is being ended)."""

    id: UUID
    state: str


class Attempt(AttemptView, frozen=True):
    """One attempt; `error` is what it failed with, by name, or None."""

    error: dict[str, Any] | None  # type: ignore[assignment]


class AuditEntry(AuditView, frozen=True):
    """One line of a job's history."""

    detail: dict[str, Any] | None  # type: ignore[assignment]


class Letter(DeadLetter, frozen=True):
    """A dead job that waits for a decision, with its last error."""

    error: dict[str, Any] | None  # type: ignore[assignment]


class Job(JobView, frozen=True):
    """Everything about one job; integers are exact, whatever their size."""

    payload: Any
    result: Any
    error: dict[str, Any] | None  # type: ignore[assignment]
    attempts: list[Attempt]  # type: ignore[assignment]
    audit: list[AuditEntry]  # type: ignore[assignment]


class JobFailed(MutiraoError):
    """The job ended dead or cancelled, so it has no result; `job` tells all about it."""

    code = "job_failed"

    def __init__(self, job: Job) -> None:
        error = job.error or {}
        why = f": {error.get('type', 'error')}: {error.get('message', '')}" if error else ""
        super().__init__(f"the job {job.id} is {job.state}{why}", hint=f"see `mutirao jobs show {job.id}`")
        self.job = job
        self.error = job.error
