"""The read models stay quick on a long history: they walk indexes, and a page's cost is a page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from mutirao.domain.views import JobFilter
from mutirao.store import sql
from mutirao.store.database import Database
from mutirao.store.insights import Insights

SQL = sql.load("insights.sql")
HISTORY = 30_000
HIGHEST = UUID(int=(1 << 128) - 1)
LISTED = {"below": HIGHEST, "state": None, "handler": None, "queue": None, "limit": 51}
DEAD = {"before": "infinity", "below": HIGHEST, "handler": None, "queue": None, "limit": 51}
FILL = """
INSERT INTO finished_jobs (id, state, handler, payload, queue, priority, max_retries, max_attempts,
    backoff_base, backoff_cap, timeout, run_at, submitted_by, traceparent, created_at, attempt, finished_at)
SELECT md5(n::text)::uuid, CASE WHEN n %% 10 = 0 THEN 'dead' ELSE 'succeeded' END::job_state,
    'echo', '{}', 'default', 5, 3, 4, 1, 300, 300, t, 'api', '', t, 1, t
FROM generate_series(1, %(rows)s) AS n,
    LATERAL (SELECT clock_timestamp() - n * interval '1 second' AS t) AS times
"""
FILL_DETAILS = """
WITH attempted AS (
    INSERT INTO attempts (job_id, attempt, node, incarnation, started_at, ended_at, outcome, seconds)
    SELECT id, 1, id, 1, created_at, finished_at, 'succeeded', 0 FROM finished_jobs
)
INSERT INTO audit (at, job_id, attempt, event, to_state, actor)
SELECT created_at, id, 0, 'submitted', 'queued', 'api' FROM finished_jobs
"""


@pytest.fixture(scope="module")
def database(database_server: Any, migrated_template: str) -> Iterator[Database]:
    dsn = database_server.create(migrated_template)
    opened = Database(dsn, application_name="test")
    with opened.transaction() as tx:
        tx.execute(FILL, {"rows": HISTORY})
        tx.execute(FILL_DETAILS)
    with opened.transaction() as tx:
        tx.execute("ANALYZE")
    yield opened
    opened.close()
    database_server.drop(dsn)


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes_of(child)


@pytest.mark.parametrize(
    ("query", "params", "most"),
    [
        ("job", {"id": HIGHEST}, 2),
        ("attempts", {"id": HIGHEST}, 2),
        ("audit", {"id": HIGHEST}, 2),
        ("live_jobs", LISTED, 60),
        ("finished_jobs", LISTED, 120),
        ("finished_jobs", {**LISTED, "below": UUID(int=1 << 100)}, 120),
        ("dead_letters", DEAD, 120),
        ("count_dead_letters", {"limit": 1001}, 1001),
    ],
)
def test_a_page_costs_a_page(database: Database, query: str, params: dict[str, Any], most: int) -> None:
    explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {getattr(SQL, query)}"
    with database.transaction() as tx:
        text = tx.rows(explain, params)[0][0]
    plan = (json.loads(text) if isinstance(text, str) else text)[0]["Plan"]
    for node in nodes_of(plan):
        read = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        assert read <= most, (node["Node Type"], node.get("Relation Name"), read)


def test_the_whole_history_is_walked_without_gaps_or_repeats(database: Database) -> None:
    insights, seen, cursor = Insights(database), list[UUID](), None
    for _ in range(HISTORY // 500 + 1):
        page = insights.list_jobs(JobFilter(), cursor, 500)
        seen += [job.id for job in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert cursor is None
    assert len(seen) == HISTORY
    assert seen == sorted(set(seen), reverse=True)


def test_dead_letters_are_counted_up_to_a_bound(database: Database) -> None:
    assert Insights(database).counts()[1] == 1001


def test_status_and_nodes_of_an_empty_cluster(postgres_dsn: str) -> None:
    database = Database(postgres_dsn, application_name="test")
    status = Insights(database).status()
    database.close()
    assert (status.term, status.leader, status.nodes, status.recent_jobs) == (0, None, [], [])
    assert (status.success_rate, status.mean_seconds, status.queue_length) == (None, None, 0)
