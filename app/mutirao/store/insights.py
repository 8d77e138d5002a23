"""All read models: nothing here changes a row, and nothing scans a table that grows without bound."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from mutirao.domain.job import Backoff, State
from mutirao.domain.views import (
    AttemptView,
    AuditView,
    ContractView,
    JobFilter,
    JobSummary,
    JobView,
    NodeView,
    RefusalView,
    StatusView,
)
from mutirao.store import sql
from mutirao.store.database import Database
from mutirao.store.lists import jobs_below, raw

COUNTED_DEAD_LETTERS = 1001
# Of all attempts of one job together, in bytes; beyond it, so many characters of each older one.
MOST_OUTPUT, LEAST_OUTPUT = 4 << 20, 1000

_SQL = sql.load("insights.sql")
_HIGHEST = UUID(int=(1 << 128) - 1)


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
        key = {"id": job_id, "most": MOST_OUTPUT, "least": LEAST_OUTPUT}
        with self._db.transaction() as tx:
            found, attempts, audit = (tx.send(query, key) for query in (_SQL.job, _SQL.attempts, _SQL.audit))
            row = found.fetchone()
            if row is None:
                return None
            return _job(row, attempts.fetchall(), audit.fetchall())

    def nodes(self) -> list[NodeView]:
        """Every node by name, with its role and the age of its last beat."""
        with self._db.transaction() as tx:
            return [_node(row) for row in tx.rows(_SQL.nodes)]

    def status(self, recent: int = 20) -> StatusView:
        """The cluster at a glance."""
        with self._db.transaction() as tx:
            term, nodes, counts = tx.send(_SQL.term), tx.send(_SQL.nodes), tx.send(_SQL.counts)
            outcomes, dead = tx.send(_SQL.outcomes), tx.send(_SQL.count_dead_letters, _DEAD_LIMIT)
            jobs = jobs_below(tx, JobFilter(), _HIGHEST, recent)
            return _status(
                term.fetchall()[0],
                nodes=[_node(row) for row in nodes.fetchall()],
                counts=counts.fetchall(),
                outcomes=outcomes.fetchall(),
                dead=dead.fetchall()[0].count,
                recent=jobs.items,
            )

    def contracts(self) -> list[ContractView]:
        """One contract a handler: the newest that a live node serves, else the last that one did."""
        with self._db.transaction() as tx:
            return [_contract(row) for row in tx.rows(_SQL.contracts)]


_DEAD_LIMIT = {"limit": COUNTED_DEAD_LETTERS}


def _job(row: Any, attempts: list[Any], audit: list[Any]) -> JobView:
    fields = row._asdict()
    incarnation = fields.pop("incarnation")
    backoff = Backoff(fields.pop("backoff_base"), fields.pop("backoff_cap"))
    for name in ("payload", "result", "error"):
        fields[name] = raw(fields[name])
    ended = [AttemptView(**{**item._asdict(), "error": raw(item.error)}) for item in attempts]
    if row.state == State.RUNNING and all(item.attempt != row.attempt for item in ended):
        ended.append(_running(row, incarnation))
    return JobView(
        **fields,
        cancelling=row.state == State.RUNNING and row.cancel_requested_at is not None,
        backoff=backoff,
        attempts=ended,
        audit=[AuditView(**{**item._asdict(), "detail": raw(item.detail)}) for item in audit],
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
        output=None,
        output_dropped=0,
    )


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
        id=row.id,
        handler=row.handler,
        fingerprint=row.fingerprint,
        accepted=row.accepted,
        nodes=row.nodes,
        refusals=[RefusalView(**refusal) for refusal in row.refusals],
        unserved_jobs=row.unserved_jobs,
        description=row.description,
        payload_schema=json.loads(row.payload_schema),
        result_schema=json.loads(row.result_schema),
        defaults=json.loads(row.defaults),
    )
