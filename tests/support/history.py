"""A database with a long history, and what a statement reads of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from mutirao.store.database import Database

ROWS = 30_000
FIRST = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
# One job ended each second; every tenth is dead; ids sort by age, as UUIDv7 do.
FILL = """
INSERT INTO finished_jobs (id, state, handler, payload, queue, priority, max_retries, max_attempts,
    backoff_base, backoff_cap, timeout, run_at, submitted_by, traceparent, created_at, attempt, finished_at,
    error)
SELECT (lpad(to_hex((extract(epoch FROM t) * 1000)::bigint), 12, '0') || '70008'
        || lpad(n::text, 15, '0'))::uuid,
    CASE WHEN n %% 10 = 0 THEN 'dead' ELSE 'succeeded' END::job_state,
    CASE WHEN n <= 100 THEN 'rare' ELSE 'echo' END, '{}', 'default', 5, 3, 4, 1, 300, 300, t, 'api', '', t, 1,
    t, CASE WHEN n %% 10 = 0 THEN jsonb_build_object('type', CASE WHEN n = 10 THEN 'Rare' ELSE 'E' END) END
FROM generate_series(1, %(rows)s) AS n,
    LATERAL (SELECT %(first)s::timestamptz + n * interval '1 second' AS t) AS times
"""
FILL_DETAILS = """
WITH attempted AS (
    INSERT INTO attempts (job_id, attempt, node, incarnation, started_at, ended_at, outcome, seconds)
    SELECT id, 1, id, 1, created_at, finished_at, 'succeeded', 0 FROM finished_jobs
)
INSERT INTO audit (at, job_id, attempt, event, to_state, actor)
SELECT created_at, id, 0, CASE WHEN row_number() OVER (ORDER BY id) = 1 THEN 'rare' ELSE 'submitted' END,
    'queued', 'api'
FROM finished_jobs ORDER BY id
"""


def fill(dsn: str) -> Database:
    """The database, filled and counted."""
    opened = Database(dsn, application_name="test")
    with opened.transaction() as tx:
        tx.execute(FILL, {"rows": ROWS, "first": FIRST})
        tx.execute(FILL_DETAILS)
    with opened.transaction() as tx:
        tx.execute("ANALYZE")
    return opened


def moment(second: float) -> datetime:
    """When the job of that number was created."""
    return FIRST + timedelta(seconds=second)


def most_rows(database: Database, statement: str, params: Mapping[str, object]) -> int:
    """The most rows that any part of the statement's plan has looked at."""
    with database.transaction() as tx:
        text = tx.rows(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", params)[0][0]
    plan = (json.loads(text) if isinstance(text, str) else text)[0]["Plan"]
    return max(int(node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) for node in _nodes(plan))


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)
