"""Lists that people page through: a page reads a bounded number of rows, whatever a filter leaves of them.

It may therefore be short or empty while there is more: only a `next_cursor` of None ends a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from mutirao.domain.job import ENDED, LIVE, State
from mutirao.domain.views import AuditFilter, AuditView, DeadLetter, JobFilter, JobSummary, LetterFilter, Page
from mutirao.errors import InvalidInput
from mutirao.store import sql
from mutirao.store.database import Database, Transaction

# How far the clocks of the nodes, which the ids come from, may be from PostgreSQL's, which `created_at` is.
CLOCKS_DIFFER = timedelta(hours=1)

# What each list's cursors look like.
JOB_CURSOR = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
LETTER_CURSOR = r"^([0-9]{1,17})\.([0-9a-f]{32})$"
ENTRY_CURSOR = r"^[0-9]{1,18}$"

_SQL = sql.load("lists.sql")
_LOWEST, _HIGHEST = UUID(int=0), UUID(int=(1 << 128) - 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND, _MILLISECOND = timedelta(microseconds=1), timedelta(milliseconds=1)
_NEWEST = (1 << 63) - 1


class _Part(NamedTuple):
    states: frozenset[State]
    rows: str
    floor: str


_LIVE_JOBS = _Part(LIVE, _SQL.live_jobs, _SQL.live_jobs_floor)
_FINISHED_JOBS = _Part(ENDED, _SQL.finished_jobs, _SQL.finished_jobs_floor)


class Lists:
    """Jobs, dead letters and the audit log, page by page; each page is one transaction's view."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def jobs(self, wanted: JobFilter, cursor: str | None, limit: int) -> Page[JobSummary]:
        """Live and finished jobs together, newest id first; `cursor` is an earlier page's `next_cursor`."""
        below = _HIGHEST if cursor is None else UUID(_matched(JOB_CURSOR, cursor)[0])
        with self._one_view() as tx:
            return jobs_below(tx, wanted, below, limit)

    def summaries(self, ids: Sequence[UUID]) -> list[JobSummary]:
        """Those of the jobs that exist, in no particular order."""
        with self._db.transaction() as tx:
            return [JobSummary(**row._asdict()) for row in tx.rows(_SQL.summaries, {"ids": list(ids)})]

    def dead_letters(self, wanted: LetterFilter, cursor: str | None, limit: int) -> Page[DeadLetter]:
        """Dead jobs that wait for a decision, the latest first."""
        before, below = ("infinity", _HIGHEST) if cursor is None else _letter(cursor)
        params = {**msgspec.structs.asdict(wanted), "before": before, "below": below, "limit": limit + 1}
        with self._one_view() as tx:
            rows = tx.rows(_SQL.dead_letters, params)
            last = rows[limit - 1] if len(rows) > limit else tx.row(_SQL.dead_letters_floor, params)
        items = [DeadLetter(**{**row._asdict(), "error": raw(row.error)}) for row in rows[:limit]]
        return Page(items=items, next_cursor=None if last is None else _letter_cursor(last))

    def audit(self, wanted: AuditFilter, cursor: str | None, limit: int) -> Page[AuditView]:
        """The audit log, newest first."""
        below = _NEWEST if cursor is None else int(_matched(ENTRY_CURSOR, cursor)[0])
        params = {**msgspec.structs.asdict(wanted), "below": below, "limit": limit + 1}
        one_job = wanted.job_id is not None
        with self._one_view() as tx:
            rows = tx.rows(_SQL.audit_of_job if one_job else _SQL.audit, params)
            if len(rows) > limit:
                last = rows[limit - 1]
            else:
                last = None if one_job else tx.row(_SQL.audit_floor, params)
        items = [AuditView(**{**row._asdict(), "detail": raw(row.detail)}) for row in rows[:limit]]
        return Page(items=items, next_cursor=None if last is None else str(last.id))

    @contextmanager
    def _one_view(self) -> Iterator[Transaction]:
        # A page's rows and the place where it ends must be found in the same state of the tables.
        with self._db.transaction() as tx:
            tx.send(_SQL.one_view)
            yield tx


def raw(text: str | None) -> msgspec.Raw | None:
    """JSON text as stored, to be sent as it is."""
    return None if text is None else msgspec.Raw(text.encode())


def jobs_below(tx: Transaction, wanted: JobFilter, below: UUID, limit: int) -> Page[JobSummary]:
    """The page of jobs whose ids are below this one."""
    params = {
        **msgspec.structs.asdict(wanted),
        "below": min(below, _id_at(wanted.created_before, CLOCKS_DIFFER, _HIGHEST)),
        "oldest": _id_at(wanted.created_after, -CLOCKS_DIFFER, _LOWEST),
        "limit": limit + 1,
    }
    states = set(wanted.states or LIVE | ENDED)
    # Live before finished: a job that ends in between is in both answers, never in none.
    parts = [part for part in (_LIVE_JOBS, _FINISHED_JOBS) if states & part.states]
    pages = [tx.send(part.rows, params) for part in parts]
    found, floors = dict[UUID, Any](), list[UUID]()
    for part, page in zip(parts, pages, strict=True):
        rows = page.fetchall()
        found |= {row.id: row for row in rows}
        if len(rows) <= limit:
            floors += [row.id for row in tx.rows(part.floor, params)]
    return _merged(found, max(floors, default=None), limit)


def _merged(found: dict[UUID, Any], floor: UUID | None, limit: int) -> Page[JobSummary]:
    # Below the higher floor one of the two tables was not read.
    ordered = [found[key] for key in sorted(found, reverse=True) if floor is None or key >= floor]
    items = [JobSummary(**row._asdict()) for row in ordered[:limit]]
    last = items[-1].id if len(ordered) > limit else floor
    return Page(items=items, next_cursor=None if last is None else str(last))


def _id_at(moment: datetime | None, margin: timedelta, otherwise: UUID) -> UUID:
    """The lowest UUIDv7 of that moment and a margin."""
    if moment is None:
        return otherwise
    milliseconds = (moment + margin - _EPOCH) // _MILLISECOND
    return UUID(int=min(max(milliseconds, 0), (1 << 48) - 1) << 80)


def _letter(cursor: str) -> tuple[str, UUID]:
    found = _matched(LETTER_CURSOR, cursor)
    return (_EPOCH + int(found[1]) * _MICROSECOND).isoformat(), UUID(found[2])


def _letter_cursor(row: Any) -> str:
    return f"{(row.finished_at - _EPOCH) // _MICROSECOND}.{row.id.hex}"


def _matched(pattern: str, cursor: str) -> re.Match[str]:
    found = re.fullmatch(pattern, cursor, re.ASCII)
    if found is None:
        raise InvalidInput("cursor", "is not a cursor of this list")
    return found
