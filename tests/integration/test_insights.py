"""The read models stay quick on a long history: they walk indexes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from mutirao.store import sql
from mutirao.store.database import Database
from mutirao.store.insights import Insights
from tests.support.history import fill, most_rows

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
        ("attempts", {"id": NOBODY}, 2),
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
