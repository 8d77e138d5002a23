"""The schema comes to be once, however many ask for it, and every statement of the store has its use."""

from __future__ import annotations

import re
from functools import partial
from importlib import resources
from pathlib import Path

import psycopg
import pytest

import mutirao
from mutirao.errors import StoreUnavailable
from mutirao.store import sql
from mutirao.store.migrate import migrate
from tests.support.stage import Stage, at_once

SQL_FILES = sorted(
    entry.name for entry in resources.files("mutirao.store.sql").iterdir() if entry.name.endswith(".sql")
)
SOURCES = {path: path.read_text() for path in Path(mutirao.__file__).parent.rglob("*.py")}


def objects(dsn: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            "SELECT oid, relname, relfilenode FROM pg_class"
            " WHERE relnamespace = 'mutirao'::regnamespace ORDER BY oid"
        ).fetchall()


def test_a_second_migration_does_nothing(empty_dsn: str) -> None:
    before, now = migrate(empty_dsn)
    assert before is None and now
    there = objects(empty_dsn)
    assert migrate(empty_dsn) == (now, now)
    assert objects(empty_dsn) == there


def test_migrations_at_once_take_turns(empty_dsn: str) -> None:
    answers = at_once([partial(migrate, empty_dsn)] * 4)
    assert [before for before, _ in answers].count(None) == 1
    assert len({now for _, now in answers}) == 1


def test_a_database_at_work_is_migrated_though_its_work_is_in_the_way(empty_dsn: str) -> None:
    """Agents take their locks in other orders than a migration does: one of the two has to begin again."""
    first = resources.files("mutirao.store.migrations") / "0001_schema.sql"
    with psycopg.connect(empty_dsn, autocommit=True) as connection, Stage(empty_dsn) as stage:
        connection.execute("CREATE SCHEMA mutirao")
        connection.execute("SET search_path = mutirao")
        connection.execute(first.read_bytes())
        connection.execute("CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)")
        connection.execute("INSERT INTO alembic_version VALUES ('0001')")
        connection.execute(
            "INSERT INTO jobs (id, state, handler, payload, queue, priority, max_retries, max_attempts,"
            " backoff_base, backoff_cap, timeout, run_at, submitted_by, traceparent, created_at, rank,"
            " queued_at) VALUES (gen_random_uuid(), 'queued', 'echo', '{}', '', 5, 0, 1, 1, 1, 1, now(), '',"
            " '', now(), 1, now())"
        )
        connection.execute("BEGIN")
        connection.execute("UPDATE jobs SET priority = 6")
        with stage.later(lambda: migrate(empty_dsn)) as migrated:
            stage.blocked()
            connection.execute("SELECT count(*) FROM attempts")
            connection.execute("COMMIT")
            assert migrated.result(20.0)[0] == "0001"
        assert connection.execute("SELECT priority, contract FROM jobs").fetchall() == [(6, 0)]


def test_a_server_that_is_not_there_is_said_plainly() -> None:
    with pytest.raises(StoreUnavailable, match="cannot be migrated"):
        migrate("postgresql://nobody@/nowhere?host=/nonexistent")


def test_partitions_of_the_coming_days_are_there(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute("SET search_path = mutirao")
        made = b"SELECT ensure_partitions(3)"
        connection.execute(made)  # midnight may have passed since the schema was made
        assert connection.execute(made).fetchall() == [(0,)]
        connection.execute(f"DROP TABLE audit_{_day(connection, 2)}".encode())
        assert connection.execute(made).fetchall() == [(1,)]


def test_a_row_from_the_future_holds_up_no_partition_but_its_own(postgres_dsn: str) -> None:
    """As when a server's clock was ahead for a while."""
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute("SET search_path = mutirao")
        connection.execute(
            "SELECT ensure_partitions(3)"
        )  # midnight may have passed since the schema was made
        for table in ("audit", "attempts", "finished_jobs"):
            for day in (2, 3):
                connection.execute(f"DROP TABLE {table}_{_day(connection, day)}".encode())
        connection.execute(
            "INSERT INTO audit (job_id, attempt, event, actor, at)"
            " VALUES (gen_random_uuid(), 0, 'note', 'test', current_date + 2 + time '12:00')"
        )
        for expected in (5, 0):
            assert connection.execute("SELECT ensure_partitions(3)").fetchall() == [(expected,)]


def _day(connection: psycopg.Connection, ahead: int) -> str:
    row = connection.execute("SELECT to_char(current_date + %s, 'YYYYMMDD')", (ahead,)).fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize("file", SQL_FILES)
def test_every_statement_is_described_and_used(file: str) -> None:
    handles = re.compile(rf'(\w+) = sql\.load\("{re.escape(file)}"\)')
    inline = re.compile(rf'sql\.load\("{re.escape(file)}"\)\.(\w+)')
    used = set()
    for text in SOURCES.values():
        used |= set(inline.findall(text))
        for handle in handles.findall(text):
            used |= set(re.findall(rf"\b{handle}\.(\w+)", text))
    named = sql.load(file).names()
    assert used - {"names"} == named
    for name in named:
        assert getattr(sql.load(file), name).startswith("-- "), f"{name} says nothing of what it does"


def test_statements_live_in_sql_files_alone() -> None:
    """What calls a function and nothing else is the exception."""
    statement = re.compile(r'"""?\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\s[^"]*\b(FROM|INTO|SET|WHERE)\b')
    found = [path.name for path, text in SOURCES.items() if statement.search(text)]
    assert found == []


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no_such"):
        _ = sql.load("jobs.sql").no_such
