"""All read models: nothing here changes a row, and nothing scans a table that grows without bound."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from mutirao.domain.job import ENDED, LIVE, Backoff, State
from mutirao.domain.views import (
    AttemptView,
    AuditView,
    ContractView,
    DeadLetter,
    JobFilter,
    JobSummary,
    JobView,
    NodeView,
    Page,
    StatusView,
)
from mutirao.errors import InvalidInput
from mutirao.store import sql
from mutirao.store.database import Database, Transaction

COUNTED_DEAD_LETTERS = 1001

_SQL = sql.load("insights.sql")
_HIGHEST = UUID(int=(1 << 128) - 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Insights:
    """What readers may know; each answer is one transaction's view."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def ping(self) -> str:
        """Empty when the server answers and accepts writes, else why not; raises StoreUnavailable."""
        with self._db.transaction() as tx:
            return "" if tx.rows(_SQL.ping)[0].writable else "is read-only"

    def job(self, job_id: UUID) -> JobView | None:
        """The job, live or finished, with its attempts (the running one included) and its history."""
        key = {"id": job_id}
        with self._db.transaction() as tx:
            found, attempts, audit = (tx.send(query, key) for query in (_SQL.job, _SQL.attempts, _SQL.audit))
            row = found.fetchone()
            if row is None:
                return None
            return _job(row, attempts.fetchall(), audit.fetchall())

    def list_jobs(self, wanted: JobFilter, cursor: str | None, limit: int) -> Page[JobSummary]:
        """Live and finished jobs together, newest id first; `cursor` is an earlier page's `next_cursor`."""
        with self._db.transaction() as tx:
            return _list_jobs(tx, wanted, _uuid_cursor(cursor), limit)

    def dead_letters(self, wanted: JobFilter, cursor: str | None, limit: int) -> Page[DeadLetter]:
        """Dead jobs that wait for a decision, the latest first."""
        before, below = _time_cursor(cursor)
        params = {"before": before, "below": below, "handler": wanted.handler, "queue": wanted.queue}
        with self._db.transaction() as tx:
            rows = tx.rows(_SQL.dead_letters, {**params, "limit": limit + 1})
        items = [DeadLetter(**{**row._asdict(), "error": _raw(row.error)}) for row in rows[:limit]]
        return Page(items=items, next_cursor=_after(items[-1]) if len(rows) > limit else None)

    def nodes(self) -> list[NodeView]:
        """Every node by name, with its role and the age of its last beat."""
        with self._db.transaction() as tx:
            return [_node(row) for row in tx.rows(_SQL.nodes)]

    def counts(self) -> tuple[dict[str, int], int]:
        """Live jobs by state as last counted, and the dead letters (counted up to 1001)."""
        with self._db.transaction() as tx:
            counts, dead = tx.send(_SQL.counts), tx.send(_SQL.count_dead_letters, _DEAD_LIMIT)
            return {row.state: row.count for row in counts.fetchall()}, dead.fetchall()[0].count

    def status(self, recent: int = 20) -> StatusView:
        """The cluster at a glance."""
        with self._db.transaction() as tx:
            term, nodes, counts = tx.send(_SQL.term), tx.send(_SQL.nodes), tx.send(_SQL.counts)
            outcomes, dead = tx.send(_SQL.outcomes), tx.send(_SQL.count_dead_letters, _DEAD_LIMIT)
            jobs = _list_jobs(tx, JobFilter(), _HIGHEST, recent)
            return _status(
                term.fetchall()[0],
                nodes=[_node(row) for row in nodes.fetchall()],
                counts=counts.fetchall(),
                outcomes=outcomes.fetchall(),
                dead=dead.fetchall()[0].count,
                recent=jobs.items,
            )

    def contracts(self) -> list[ContractView]:
        """One contract a handler: the newest that a live node carries."""
        with self._db.transaction() as tx:
            return [_contract(row) for row in tx.rows(_SQL.contracts)]


_DEAD_LIMIT = {"limit": COUNTED_DEAD_LETTERS}


def _raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())


def _job(row: Any, attempts: list[Any], audit: list[Any]) -> JobView:
    fields = row._asdict()
    incarnation = fields.pop("incarnation")
    backoff = Backoff(fields.pop("backoff_base"), fields.pop("backoff_cap"))
    for name in ("payload", "result", "error"):
        fields[name] = _raw(fields[name])
    ended = [AttemptView(**{**item._asdict(), "error": _raw(item.error)}) for item in attempts]
    if row.state == State.RUNNING and all(item.attempt != row.attempt for item in ended):
        ended.append(_running(row, incarnation))
    return JobView(
        **fields,
        cancelling=row.state == State.RUNNING and row.cancel_requested_at is not None,
        backoff=backoff,
        attempts=ended,
        audit=[AuditView(**{**item._asdict(), "detail": _raw(item.detail)}) for item in audit],
    )


def _running(row: Any, incarnation: int) -> AttemptView:
    return AttemptView(
        attempt=row.attempt,
        node=row.node,
        node_name=row.node_name,
        incarnation=incarnation,
        started_at=row.started_at,
        ended_at=None,
        outcome=None,
        seconds=None,
        error=None,
    )


def _list_jobs(tx: Transaction, wanted: JobFilter, below: UUID, limit: int) -> Page[JobSummary]:
    params = {**msgspec.structs.asdict(wanted), "below": below, "limit": limit + 1}
    # Live before finished: a job that ends in between is in both answers, never in none.
    live = tx.send(_SQL.live_jobs, params) if wanted.state not in ENDED else None
    finished = tx.send(_SQL.finished_jobs, params) if wanted.state not in LIVE else None
    rows = {row.id: row for cursor in (live, finished) if cursor is not None for row in cursor.fetchall()}
    ordered = [rows[key] for key in sorted(rows, reverse=True)]
    items = [JobSummary(**row._asdict()) for row in ordered[:limit]]
    return Page(items=items, next_cursor=str(items[-1].id) if len(ordered) > limit else None)


def _uuid_cursor(cursor: str | None) -> UUID:
    try:
        return _HIGHEST if cursor is None else UUID(cursor)
    except ValueError:
        raise InvalidInput("cursor", "is not a cursor of this list") from None


def _time_cursor(cursor: str | None) -> tuple[str, UUID]:
    if cursor is None:
        return "infinity", _HIGHEST
    microseconds, _, job = cursor.partition(".")
    try:
        return (_EPOCH + int(microseconds) * _MICROSECOND).isoformat(), UUID(job)
    except (ValueError, OverflowError):
        raise InvalidInput("cursor", "is not a cursor of this list") from None


def _after(letter: DeadLetter) -> str:
    return f"{(letter.finished_at - _EPOCH) // _MICROSECOND}.{letter.id.hex}"


def _node(row: Any) -> NodeView:
    fields = row._asdict()
    role = "coordinator" if fields.pop("leads") else "worker"
    return NodeView(**fields, role=role)


def _status(
    term: Any,
    *,
    nodes: list[NodeView],
    counts: list[Any],
    outcomes: list[Any],
    dead: int,
    recent: list[JobSummary],
) -> StatusView:
    by_state = {row.state: row.count for row in counts}
    ended = sum(row.count for row in outcomes)
    succeeded = sum(row.count for row in outcomes if row.outcome == "succeeded")
    return StatusView(
        term=term.term,
        holder=term.holder,
        leader=next((node.name for node in nodes if node.role == "coordinator"), None),
        nodes=nodes,
        counts=by_state,
        counted_at=max((row.counted_at for row in counts), default=None),
        queue_length=by_state.get("queued", 0) + by_state.get("assigned", 0),
        attempts_ended=ended,
        success_rate=succeeded / ended if ended else None,
        mean_seconds=sum(row.seconds for row in outcomes) / ended if ended else None,
        dead_letters=dead,
        recent_jobs=recent,
    )


def _contract(row: Any) -> ContractView:
    return ContractView(
        handler=row.handler,
        fingerprint=row.fingerprint,
        description=row.description,
        payload_schema=json.loads(row.payload_schema),
        result_schema=json.loads(row.result_schema),
        defaults=json.loads(row.defaults),
    )
