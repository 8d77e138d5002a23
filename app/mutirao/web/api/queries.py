"""What a list may be asked for: one model of query parameters each, checked as strictly as a body."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from mutirao.domain.job import State
from mutirao.services.fields import EntryCursor, Id, Instant, JobCursor, LetterCursor, Name, Text

MAX_LIMIT = 500
# As many as fit into the first line of a request, which may have 4,094 bytes.
MAX_IDS = 100

_DIGITS = re.compile(r"[0-9]{1,19}", re.ASCII)


def _integer(value: object) -> int:
    if not isinstance(value, str) or not _DIGITS.fullmatch(value):
        raise ValueError("must be an integer")
    return int(value)


def _states(value: object) -> list[State]:
    names = str(value).split(",")
    if not set(names) <= set(State):
        raise ValueError(f"must be one or more of {', '.join(State)}, separated by commas")
    return [State(name) for name in names]


def _ids(value: object) -> list[str]:
    given = str(value).split(",")
    if len(given) > MAX_IDS:
        raise ValueError(f"may name at most {MAX_IDS} jobs")
    return given


Ids = Annotated[
    list[Id],
    BeforeValidator(_ids),
    WithJsonSchema(
        {"type": "array", "items": {"type": "string", "format": "uuid"}, "minItems": 1, "maxItems": MAX_IDS}
    ),
]
States = Annotated[
    list[State],
    BeforeValidator(_states),
    WithJsonSchema(
        {"type": "array", "items": {"type": "string", "enum": [str(state) for state in State]}, "minItems": 1}
    ),
]
_CURSOR = Field(None, description="An earlier answer's `next_cursor`.")


class _Query(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class PageQuery(_Query):
    """How long a page of a list is; each list has cursors of its own."""

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT), BeforeValidator(_integer)] = Field(
        50, description="At most so many items."
    )


class JobsQuery(PageQuery):
    """Which jobs."""

    cursor: JobCursor | None = _CURSOR
    state: States | None = Field(None, description="One or more states, separated by commas.")
    handler: Name | None = None
    queue: Name | None = None
    created_after: Instant | None = Field(None, description="Not created before this time.")
    created_before: Instant | None = Field(None, description="Created before this time.")


class LettersQuery(PageQuery):
    """Which dead letters."""

    cursor: LetterCursor | None = _CURSOR
    handler: Name | None = None
    queue: Name | None = None
    error_type: Text | None = Field(None, description="The `type` of the last error.")


class AuditQuery(PageQuery):
    """Which entries of the audit log."""

    cursor: EntryCursor | None = _CURSOR
    job_id: Id | None = None
    event: Name | None = None
    actor: Text | None = None
    node: Text | None = Field(None, description="A node's id or name.")


class IdsQuery(_Query):
    """Which jobs, by their ids."""

    ids: Ids = Field(description=f"1 to {MAX_IDS} ids, separated by commas.")


class DeathQuery(_Query):
    """Which death of a job is meant."""

    attempt: Annotated[int, Field(ge=1, le=2**31 - 1), BeforeValidator(_integer)] | None = Field(
        None, description="Only if it died at this attempt: so a request that is repeated decides once."
    )
