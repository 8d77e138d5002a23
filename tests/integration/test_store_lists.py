"""Lists stay quick on a long history: a page reads a bounded number of rows; none is left out or repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from uuid import UUID

import pytest

from mutirao.domain.views import AuditFilter, JobFilter, LetterFilter, Page
from mutirao.store import sql
from mutirao.store.database import Database, Transaction
from mutirao.store.lists import Lists
from tests.support.history import ROWS, fill, moment, most_rows
from tests.support.stage import Stage

T = TypeVar("T")

SQL = sql.load("lists.sql")
SCANNED = 10_000
HIGHEST = UUID(int=(1 << 128) - 1)
JOBS: dict[str, object] = {
    "below": HIGHEST,
    "oldest": UUID(int=0),
    "states": None,
    "handler": None,
    "queue": None,
    "created_after": None,
    "created_before": None,
    "limit": 51,
}
DEAD: dict[str, object] = {
    "before": "infinity",
    "below": HIGHEST,
    "handler": None,
    "queue": None,
    "error_type": None,
    "limit": 51,
}
AUDIT: dict[str, object] = {"below": 1 << 62, "event": None, "actor": None, "node": None, "limit": 51}


@pytest.fixture(scope="module")
def database(database_server: Any, migrated_template: str) -> Iterator[Database]:
    dsn = database_server.create(migrated_template)
    opened = fill(dsn)
    yield opened
    opened.close()
    database_server.drop(dsn)


@pytest.fixture(scope="module")
def lists(database: Database) -> Lists:
    return Lists(database)


def walk(page: Callable[[str | None], Page[T]]) -> tuple[list[T], int]:
    """All items of a list, and how many pages they took."""
    found, count, cursor = list[T](), 0, None
    while True:
        one = page(cursor)
        found, count, cursor = found + one.items, count + 1, one.next_cursor
        if cursor is None:
            return found, count


@pytest.mark.parametrize(
    ("query", "params", "most"),
    [
        ("live_jobs", JOBS, 60),
        ("finished_jobs", JOBS, 120),
        ("finished_jobs", {**JOBS, "below": UUID(int=0x019B << 112)}, 120),
        ("finished_jobs", {**JOBS, "handler": "nobody"}, SCANNED),
        ("finished_jobs", {**JOBS, "states": ["cancelled"]}, SCANNED),
        ("finished_jobs_floor", JOBS, SCANNED),
        ("dead_letters", DEAD, 120),
        ("dead_letters", {**DEAD, "error_type": "Nothing"}, SCANNED),
        ("dead_letters_floor", DEAD, SCANNED),
        ("audit", AUDIT, 120),
        ("audit", {**AUDIT, "event": "nothing"}, SCANNED),
        ("audit_floor", AUDIT, SCANNED),
        ("audit_of_job", {**AUDIT, "job_id": HIGHEST}, 2),
    ],
)
def test_a_page_costs_a_page(database: Database, query: str, params: dict[str, Any], most: int) -> None:
    assert most_rows(database, getattr(SQL, query), params) <= most


def test_the_whole_history_is_walked_without_gaps_or_repeats(lists: Lists) -> None:
    found, pages = walk(lambda cursor: lists.jobs(JobFilter(), cursor, 500))
    ids = [job.id for job in found]
    assert (len(ids), pages) == (ROWS, ROWS // 500)
    assert ids == sorted(set(ids), reverse=True)


def test_what_is_rare_and_old_is_found_over_empty_pages(lists: Lists) -> None:
    found, pages = walk(lambda cursor: lists.jobs(JobFilter(handler="rare", states=["dead"]), cursor, 50))
    assert len(found) == 10
    assert 3 <= pages <= 4
    letters, pages = walk(lambda cursor: lists.dead_letters(LetterFilter(error_type="Rare"), cursor, 50))
    assert (len(letters), pages) == (1, 1)
    entries, pages = walk(lambda cursor: lists.audit(AuditFilter(event="rare"), cursor, 50))
    assert len(entries) == 1
    assert 3 <= pages <= 4


def test_a_short_page_of_dead_letters_goes_on_where_it_stopped(lists: Lists) -> None:
    """The bound is 10,000 rows; here the limit cuts the pages."""
    letters, pages = walk(lambda cursor: lists.dead_letters(LetterFilter(), cursor, 500))
    times = [letter.finished_at for letter in letters]
    assert (len(letters), pages) == (ROWS // 10, ROWS // 5000)
    assert times == sorted(times, reverse=True)


def test_the_audit_log_is_walked_without_gaps_or_repeats(lists: Lists) -> None:
    entries, _ = walk(lambda cursor: lists.audit(AuditFilter(actor="api"), cursor, 500))
    ids = [entry.id for entry in entries]
    assert len(ids) == ROWS
    assert ids == sorted(set(ids), reverse=True)


def test_jobs_are_found_by_when_they_were_created(lists: Lists) -> None:
    wanted = JobFilter(created_after=moment(5000), created_before=moment(5010))
    found, pages = walk(lambda cursor: lists.jobs(wanted, cursor, 50))
    assert [job.created_at for job in found] == [moment(second) for second in range(5009, 4999, -1)]
    assert pages == 1
    nothing = JobFilter(created_after=moment(10), created_before=moment(10))
    assert lists.jobs(nothing, None, 50).items == []


def test_live_and_finished_jobs_are_merged_over_short_pages(postgres_dsn: str) -> None:
    """A table read less deep than the other one must not lose what it has further down."""
    database = fill(postgres_dsn)
    lists = Lists(database)
    with Stage(postgres_dsn) as stage:
        old, new = UUID(int=1), UUID(int=HIGHEST.int - 1)
        stage.submit(id=old, queue="mine")
        stage.submit(id=new, queue="mine")
    found, pages = walk(lambda cursor: lists.jobs(JobFilter(queue="mine"), cursor, 50))
    database.close()
    assert [job.id for job in found] == [new, old]
    assert pages == 4


_LIVE = """
INSERT INTO jobs (id, state, handler, payload, queue, priority, max_retries, max_attempts, backoff_base,
    backoff_cap, timeout, run_at, submitted_by, traceparent, created_at, rank, queued_at)
SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'queued',
    CASE WHEN n = 10 THEN 'rare' ELSE 'echo' END, '{}', 'default', 5, 3, 4, 1,
    300, 300, now(), '', '', now(), n, now()
FROM generate_series(1, 10030) AS n
"""


def test_what_ends_while_a_page_is_read_hides_nothing_behind_it(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the page's rows and its end would be found in two different queues, and some jobs in neither."""
    with Stage(postgres_dsn) as stage:
        stage.write(_LIVE)
        reads, lists = Transaction.rows, Lists(stage.database)

        def ends_meanwhile(tx: Transaction, query: str, params: Any = None) -> list[Any]:
            if query == SQL.live_jobs_floor:
                tx.sync()
                stage.write("DELETE FROM jobs WHERE id IN (SELECT id FROM jobs ORDER BY id DESC LIMIT 25)")
            return reads(tx, query, params)

        monkeypatch.setattr(Transaction, "rows", ends_meanwhile)
        found, _ = walk(lambda cursor: lists.jobs(JobFilter(handler="rare"), cursor, 50))
        assert [job.handler for job in found] == ["rare"]
