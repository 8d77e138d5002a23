"""A scrape costs the same however many jobs there are: it touches no table that grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.integration.conftest import DatabaseServer
from tests.support.crowd import ROWS, gather
from tests.support.door import free_port, web_server
from tests.support.stage import Stage
from tests.support.waiting import until

SCRAPERS = 8
TOUCHED = """SELECT relname, seq_scan, coalesce(idx_scan, 0) AS idx_scan FROM pg_stat_user_tables
    WHERE relname ~ '^(jobs|finished_jobs|audit|attempts|submissions)'"""
OTHERS = """SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""


@pytest.fixture(scope="module")
def crowded(database_server: DatabaseServer, migrated_template: str) -> Iterator[str]:
    """Many jobs of every state with their histories, counted by a coordinator."""
    dsn = database_server.create(migrated_template)
    gather(dsn, counted=True)
    with Stage(dsn) as stage:
        stage.coordinator().count_states()
    yield dsn
    database_server.drop(dsn)


@pytest.fixture
def touched(crowded: str) -> Iterator[Callable[[], dict[str, tuple[int, int]]]]:
    """How often each big table and its indexes were read, once every other session has said so and gone."""
    with psycopg.connect(crowded, autocommit=True) as connection:

        def alone() -> bool:
            return connection.execute(OTHERS).fetchone() == (0,)

        def read() -> dict[str, tuple[int, int]]:
            until(alone, 10.0, "every other session is over")
            return {name: (whole, part) for name, whole, part in connection.execute(TOUCHED.encode())}

        yield read


def serve(directory: Path, dsn: str, redis_url: str, ask: Callable[[str], None]) -> None:
    """A web server for as long as `ask` needs it."""
    settings: dict[str, object] = {
        "node_name": "node-1",
        "postgres": dsn,
        "redis": redis_url,
        "state_dir": str(directory),
        "runtime_dir": str(directory),
        "web_port": free_port(),
    }
    with web_server(directory, settings) as (url, _):
        ask(url)


def test_eight_scrapers_at_once_read_no_table_that_grows(
    tmp_path: Path, crowded: str, redis_url: str, touched: Callable[[], dict[str, tuple[int, int]]]
) -> None:
    texts: list[str] = []

    def scrape(url: str) -> None:
        with ThreadPoolExecutor(SCRAPERS) as pool:
            for answer in pool.map(lambda _: httpx.get(f"{url}/metrics", trust_env=False), range(40)):
                texts.append(answer.text)

    before = touched()
    serve(tmp_path, crowded, redis_url, scrape)
    assert touched() == before
    assert len(before) > 5
    queued = sum(n % 6 < 3 for n in range(1, ROWS + 1))
    for text in texts:
        lines = text.splitlines()
        assert f'mutirao_jobs{{state="queued"}} {queued:.1f}' in lines
        assert f"mutirao_dead_letters {ROWS / 4:.1f}" in lines
        assert 'mutirao_nodes{status="live"} 8.0' in lines
        assert "mutirao_store_up 1.0" in lines


def test_a_reader_of_jobs_would_be_seen(
    tmp_path: Path, crowded: str, redis_url: str, touched: Callable[[], dict[str, tuple[int, int]]]
) -> None:
    def read(url: str) -> None:
        httpx.get(f"{url}/api/v1/jobs", trust_env=False).raise_for_status()

    before = touched()
    serve(tmp_path, crowded, redis_url, read)
    assert touched() != before
