"""One transaction, whatever becomes of it: the connection that is lent next works."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

from mutirao.errors import Fenced, InvalidInput, StoreUnavailable
from mutirao.store import connection
from mutirao.store.database import Database, TermHeld, Transaction
from tests.support.stage import Stage


@pytest.fixture
def stage(postgres_dsn: str) -> Iterator[Stage]:
    with Stage(postgres_dsn) as stage:
        yield stage


@pytest.fixture
def one(postgres_dsn: str) -> Iterator[Database]:
    """A pool of a single connection: what one transaction leaves behind, the next one finds."""
    database = Database(postgres_dsn, application_name="one", size=1)
    yield database
    database.close()


@pytest.mark.parametrize("errors_before", [0, 1, 3])
@pytest.mark.parametrize("fails_at", range(8))
def test_a_refused_transaction_spoils_no_statement(
    stage: Stage, one: Database, errors_before: int, fails_at: int
) -> None:
    """Statements get prepared on their sixth use; one that an error before it skipped is not."""
    office, over = stage.office(), TermHeld(999, "nobody")

    def refused() -> None:
        with pytest.raises(Fenced), one.transaction(office=over) as tx:
            tx.rows("SELECT count(*) FROM jobs WHERE attempt = %(n)s", {"n": 1})

    for _ in range(errors_before):
        refused()
    for use in range(10):
        if use == fails_at:
            refused()
        with one.transaction(office=office) as tx:
            assert tx.one("SELECT count(*) FROM jobs WHERE attempt = %(n)s", {"n": 1}).count == 0


def test_a_value_that_postgresql_refuses_is_an_input_error(one: Database) -> None:
    for value in ('"\\u0000"', '"\\ud800"', "{", "1e999999999"):
        with pytest.raises(InvalidInput), one.transaction() as tx:
            tx.rows("SELECT %(value)s::jsonb AS value", {"value": value})
    with pytest.raises(InvalidInput), one.transaction() as tx:
        tx.rows("SELECT %(value)s::text AS value", {"value": "a\0b"})


def test_a_value_beyond_a_limit_is_an_input_error_too(one: Database) -> None:
    """Trying again would meet the same limit for ever."""
    with pytest.raises(InvalidInput), one.transaction() as tx:
        tx.rows("SELECT %(value)s::jsonb AS value", {"value": "[" * 200_000 + "]" * 200_000})
    with one.transaction() as tx:
        assert tx.one("SELECT 1 AS one").one == 1


def test_a_text_that_cannot_be_encoded_is_an_input_error_too(one: Database) -> None:
    with pytest.raises(InvalidInput), one.transaction() as tx:
        tx.rows("SELECT %(value)s::text AS value", {"value": "\ud800"})
    with one.transaction() as tx:
        assert tx.one("SELECT 1 AS one").one == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("client_min_messages", "error"),
        ("default_transaction_isolation", "repeatable read"),
        ("synchronous_commit", "off"),
    ],
)
def test_what_truth_rests_on_is_not_left_to_the_servers_settings(
    stage: Stage, one: Database, name: str, value: str
) -> None:
    database = stage.rows("SELECT current_database() AS name")[0].name
    stage.write(f"ALTER ROLE CURRENT_USER IN DATABASE \"{database}\" SET {name} = '{value}'")
    with psycopg.connect(stage.dsn) as plain:
        assert plain.execute("SELECT current_setting(%s)", (name,)).fetchall() == [(value,)]
    with one.transaction() as tx:
        assert tx.one("SELECT current_setting(%(name)s) AS value", {"name": name}).value != value


def test_a_lost_connection_is_replaced(stage: Stage, one: Database) -> None:
    with one.transaction() as tx:
        pid = tx.one("SELECT pg_backend_pid() AS pid").pid
    stage.rows("SELECT pg_terminate_backend(%s, 5000)", pid)
    with one.transaction() as tx:
        assert tx.one("SELECT pg_backend_pid() AS pid").pid != pid


@pytest.mark.parametrize("proven", [False, True])
def test_work_runs_again_when_its_connection_had_ended_unnoticed(
    stage: Stage, one: Database, monkeypatch: pytest.MonkeyPatch, proven: bool
) -> None:
    monkeypatch.setattr(connection, "TRUSTED", 0.0 if proven else 3600.0)
    tries: list[int] = []

    def work(tx: Transaction) -> int:
        tries.append(tx.one("SELECT pg_backend_pid() AS pid").pid)
        tx.execute("UPDATE term SET beat = beat + 1")
        if len(tries) == 1:
            stage.rows("SELECT pg_terminate_backend(%s, 5000)", tries[0])
        return int(tx.one("SELECT beat FROM term").beat)

    with one.transaction() as tx:
        tx.rows("SELECT 1")
    if proven:
        # It answered a moment ago, so this is an outage, and whoever asked should hear of it.
        with pytest.raises(StoreUnavailable):
            one.run(work)
    else:
        assert (one.run(work), len(set(tries))) == (1, 2)


def test_a_connection_lost_before_the_commit_changed_nothing(stage: Stage, one: Database) -> None:
    with pytest.raises(StoreUnavailable) as caught, one.transaction() as tx:
        pid = tx.one("SELECT pg_backend_pid() AS pid").pid
        tx.execute("UPDATE term SET beat = 7")
        stage.rows("SELECT pg_terminate_backend(%s)", pid)
        tx.rows("SELECT 1")
    assert caught.type is StoreUnavailable
    assert stage.terms.read().beat == 0


def test_a_process_with_many_descriptors_sends_as_much_as_any(one: Database) -> None:
    """An agent with a thousand runners has two for each."""
    with ExitStack() as stack:
        for _ in range(1100):
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        with one.transaction() as tx:
            rows = tx.send("SELECT length(%(text)s::text) AS length", {"text": "x" * (8 << 20)})
            assert rows.fetchall()[0].length == 8 << 20


def test_a_server_that_stands_still_is_given_up(
    stage: Stage, one: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection is open, so only our own patience bounds the wait."""
    monkeypatch.setattr(connection, "ANSWER_WITHIN", 0.5)
    monkeypatch.setattr(connection, "TRUSTED", 0.0)
    with one.transaction() as tx:
        pid = tx.one("SELECT pg_backend_pid() AS pid").pid
    os.kill(pid, signal.SIGSTOP)
    try:
        with one.transaction() as tx:
            assert tx.one("SELECT pg_backend_pid() AS pid").pid != pid, "the pool found out by itself"
    finally:
        os.kill(pid, signal.SIGCONT)
    with pytest.raises(StoreUnavailable) as caught, one.transaction() as tx:
        pid = tx.one("SELECT pg_backend_pid() AS pid").pid
        os.kill(pid, signal.SIGSTOP)
        try:
            tx.rows("SELECT 1")
        finally:
            os.kill(pid, signal.SIGCONT)
    assert caught.type is StoreUnavailable
    with one.transaction() as tx:
        assert tx.one("SELECT 1 AS one").one == 1
