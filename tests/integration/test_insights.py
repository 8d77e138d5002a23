"""The read models stay quick on a long history: they walk indexes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from mutirao.store import sql
from mutirao.store.database import Database
from mutirao.store.insights import LEAST_OUTPUT, MOST_OUTPUT, Insights
from tests.support.history import fill, most_rows
from tests.support.stage import Stage

SQL = sql.load("insights.sql")
NOBODY = UUID(int=(1 << 128) - 1)


@pytest.fixture(scope="module")
def database(database_server: Any, migrated_template: str) -> Iterator[Database]:
    dsn = database_server.create(migrated_template)
    opened = fill(dsn)
    yield opened
    opened.close()
    database_server.drop(dsn)


@pytest.mark.parametrize(
    ("query", "params", "most"),
    [
        ("job", {"id": NOBODY}, 2),
        ("attempts", {"id": NOBODY, "most": MOST_OUTPUT, "least": LEAST_OUTPUT}, 2),
        ("audit", {"id": NOBODY}, 2),
        ("count_dead_letters", {"limit": 1001}, 1001),
    ],
)
def test_one_job_costs_one_job(database: Database, query: str, params: dict[str, Any], most: int) -> None:
    assert most_rows(database, getattr(SQL, query), params) <= most


def test_status_and_nodes_of_an_empty_cluster(postgres_dsn: str) -> None:
    database = Database(postgres_dsn, application_name="test")
    status = Insights(database).status()
    database.close()
    assert (status.term, status.leader, status.nodes, status.recent_jobs) == (0, None, [], [])
    assert (status.success_rate, status.mean_seconds, status.queue_length) == (None, None, 0)


def test_the_output_of_a_job_with_many_attempts_is_bounded_the_latest_shown_whole(postgres_dsn: str) -> None:
    with Stage(postgres_dsn) as stage:
        node = stage.node()
        (job,) = stage.submit()
        stage.write(
            """INSERT INTO attempts (job_id, attempt, node, incarnation, started_at, ended_at, outcome,
                   output, output_dropped)
               SELECT %s, n, %s, 1, now(), now(), 'failed',
                      CASE WHEN n <> 1 THEN repeat('é', 32767) || (n %% 10) END, 5
               FROM generate_series(1, 100) AS n""",
            job,
            node.id,
        )
        found = Insights(stage.database).job(job)
    assert found is not None
    whole = MOST_OUTPUT // 65535
    first, *cut = found.attempts[:-whole]
    assert (first.output, first.output_dropped) == (None, 5)
    for attempt in found.attempts[-whole:]:
        assert (len(attempt.output or ""), attempt.output_dropped) == (32768, 5)
    for attempt in cut:
        assert attempt.output == "é" * (LEAST_OUTPUT - 1) + str(attempt.attempt % 10)
        assert attempt.output_dropped == 5 + 65535 - len(attempt.output.encode())
