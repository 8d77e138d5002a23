"""What the API answers, where that is more than one view."""

from __future__ import annotations

from uuid import UUID

import msgspec

from mutirao.domain.job import State
from mutirao.domain.views import AuditView, ContractView, DeadLetter, JobSummary, NodeView


class Accepted(msgspec.Struct, frozen=True):
    """One submitted job; `created` is false when its key repeated an earlier request."""

    id: UUID
    state: State
    created: bool
    handler: str
    url: str


class AcceptedBatch(msgspec.Struct, frozen=True):
    """The submitted jobs, in the order of the request."""

    jobs: list[Accepted]


class JobPage(msgspec.Struct, frozen=True):
    """Some jobs, the newest first; it may be short while there is a `next_cursor`."""

    jobs: list[JobSummary]
    next_cursor: str | None


class Summaries(msgspec.Struct, frozen=True):
    """The jobs that were asked for by their ids, as far as they exist."""

    jobs: list[JobSummary]


class LetterPage(msgspec.Struct, frozen=True):
    """Some dead letters, the latest first; it may be short while there is a `next_cursor`."""

    dead_letters: list[DeadLetter]
    next_cursor: str | None


class AuditPage(msgspec.Struct, frozen=True):
    """Some entries of the audit log, the newest first; it may be short while there is a `next_cursor`."""

    entries: list[AuditView]
    next_cursor: str | None


class Replayed(msgspec.Struct, frozen=True):
    """The replayed jobs; of those that matched, `left` had been decided by somebody else."""

    matched: int
    replayed: list[UUID]
    left: int
    next_cursor: str | None


class Discarded(msgspec.Struct, frozen=True):
    """The discarded jobs; of those that matched, `left` had been decided by somebody else."""

    matched: int
    discarded: list[UUID]
    left: int
    next_cursor: str | None


class Nodes(msgspec.Struct, frozen=True):
    """Every node, by name."""

    nodes: list[NodeView]


class Handlers(msgspec.Struct, frozen=True):
    """Every published handler, by name."""

    handlers: list[ContractView]
