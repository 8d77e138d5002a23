"""The table of legal transitions is one: what the audit log takes is exactly what domain/job.py says (I6)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from mutirao.domain.job import ENDED, LIVE, State, legal

PAIRS = list(itertools.product([None, *State], State))


@pytest.fixture(scope="module")
def connection(database_server: Any, migrated_template: str) -> Iterator[psycopg.Connection]:
    dsn = database_server.create(migrated_template)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path = mutirao")
        yield connection
    database_server.drop(dsn)


@pytest.mark.parametrize(("before", "after"), PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])
def test_the_audit_log_takes_exactly_the_legal_transitions(
    connection: psycopg.Connection, before: State | None, after: State
) -> None:
    insert = b"""INSERT INTO audit (job_id, attempt, event, from_state, to_state, actor)
        VALUES (gen_random_uuid(), 0, 'test', %s::job_state, %s::job_state, 'test')"""
    if legal(before, after):
        assert connection.execute(insert, (before, after)).rowcount == 1
    else:
        with pytest.raises(psycopg.errors.CheckViolation, match="transition_is_legal"):
            connection.execute(insert, (before, after))


def test_an_event_that_moves_nothing_is_taken(connection: psycopg.Connection) -> None:
    connection.execute(
        "INSERT INTO audit (job_id, attempt, event, actor) VALUES (gen_random_uuid(), 0, 'note', 'test')"
    )


def test_the_states_are_the_types(connection: psycopg.Connection) -> None:
    rows = connection.execute("SELECT unnest(enum_range(NULL::job_state))::text").fetchall()
    assert [row[0] for row in rows] == [str(state) for state in State]


@pytest.mark.parametrize("state", State)
def test_live_and_ended_jobs_have_a_table_each(connection: psycopg.Connection, state: State) -> None:
    columns = (
        "id, state, handler, payload, queue, priority, max_retries, max_attempts, backoff_base, backoff_cap,"
        " timeout, run_at, submitted_by, traceparent, created_at, attempt"
    )
    values = "gen_random_uuid(), %(s)s::job_state, 'h', '{}', 'q', 5, 0, 1, 1, 1, 1, now(), '', '', now(), 0"
    live = (
        f"INSERT INTO jobs ({columns}, rank, queued_at, node, incarnation, claim_token) VALUES ({values}, 0,"
    )
    live += (
        " CASE WHEN %(s)s NOT IN ('waiting', 'scheduled') THEN now() END,"
        " CASE WHEN %(s)s IN ('assigned', 'running') THEN gen_random_uuid() END,"
        " CASE WHEN %(s)s IN ('assigned', 'running') THEN 1 END,"
        " CASE WHEN %(s)s = 'running' THEN gen_random_uuid() END)"
    )
    ended = f"INSERT INTO finished_jobs ({columns}, finished_at) VALUES ({values}, now())"
    for statement, states in ((live, LIVE), (ended, ENDED)):
        if state in states:
            assert connection.execute(statement.encode(), {"s": str(state)}).rowcount == 1
        else:
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute(statement.encode(), {"s": str(state)})
