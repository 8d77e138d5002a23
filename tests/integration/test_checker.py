"""The checker that judges every chaos run is judged first: one violation of each kind is seeded and found."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID, uuid4

import psycopg
import pytest

from mutirao.domain.job import State
from tests.support.checker import Expected, blocks, check
from tests.support.histories import clean_histories

AUDIT = "INSERT INTO audit (job_id, attempt, event, from_state, to_state, actor, term) VALUES "
TRY = "INSERT INTO attempts (job_id, attempt, node, incarnation, started_at, ended_at, outcome) "

CORRUPTIONS = {
    "I1_acknowledged_job_is_missing": ["DELETE FROM finished_jobs WHERE id = %(succeeded)s"],
    "I1_job_exists_twice": [
        "INSERT INTO jobs (id, state, handler, payload, queue, priority, max_retries, max_attempts,"
        " backoff_base, backoff_cap, timeout, run_at, submitted_by, traceparent, created_at, attempt, rank,"
        " queued_at)"
        " SELECT id, 'queued', handler, payload, queue, priority, max_retries, max_attempts, backoff_base,"
        " backoff_cap, timeout, run_at, submitted_by, traceparent, created_at, attempt, 0, now()"
        " FROM finished_jobs WHERE id = %(dead)s"
    ],
    "I1_audited_job_is_missing": ["DELETE FROM jobs WHERE id = %(queued)s"],
    "I1_key_names_no_job": ["UPDATE submissions SET job_id = %(stranger)s WHERE job_id = %(queued)s"],
    "I1_key_has_two_jobs": ["UPDATE submissions SET job_id = %(dead)s WHERE job_id = %(queued)s"],
    "I3_old_term_after_newer": [AUDIT + "(%(queued)s, 0, 'moved', 'queued', 'assigned', 'test', 1)"],
    "I3_term_was_never_taken": [AUDIT + "(%(queued)s, 0, 'moved', 'queued', 'assigned', 'test', 9)"],
    "I3_terms_do_not_increase": ["INSERT INTO terms (term, holder, node) VALUES (1, 'c', gen_random_uuid())"],
    "I3_term_is_behind": ["UPDATE term SET term = 1"],
    "I4_two_ends_in_one_life": [AUDIT + "(%(dead)s, 1, 'failed', 'running', 'dead', 'test', NULL)"],
    "I4_goes_on_after_its_end": [AUDIT + "(%(succeeded)s, 1, 'moved', 'running', 'scheduled', 'test', NULL)"],
    "I4_attempt_ended_twice": [
        TRY + "SELECT job_id, attempt, node, incarnation, started_at, clock_timestamp(), outcome"
        " FROM attempts WHERE job_id = %(retried)s AND attempt = 1"
    ],
    "I5_started_too_often": ["UPDATE finished_jobs SET max_retries = 0 WHERE id = %(lost)s"],
    "I5_bound_raised_without_audit": [
        "UPDATE jobs SET max_attempts = max_attempts + 1 WHERE id = %(running)s"
    ],
    "I5_attempts_differ_from_claims": ["UPDATE jobs SET attempt = 0 WHERE id = %(running)s"],
    "I5_claims_are_not_numbered_in_order": [
        "UPDATE audit SET attempt = 1 WHERE job_id = %(lost)s AND to_state = 'running'"
    ],
    "I6_chain_is_broken": ["DELETE FROM audit WHERE job_id = %(retried)s AND to_state = 'scheduled'"],
    "I6_transition_is_illegal": [
        "ALTER TABLE audit DROP CONSTRAINT transition_is_legal",
        AUDIT + "(%(queued)s, 0, 'moved', 'queued', 'running', 'test', NULL)",
    ],
    "I6_last_row_is_not_the_present": [
        "DELETE FROM audit WHERE job_id = %(running)s AND to_state = 'running'"
    ],
    "I6_attempts_differ_from_audit": ["DELETE FROM attempts WHERE job_id = %(retried)s AND attempt = 1"],
    "I6_attempt_of_the_future": ["UPDATE attempts SET attempt = 9 WHERE job_id = %(dead)s"],
    "I6_end_without_its_outcome": ["UPDATE attempts SET outcome = 'failed' WHERE job_id = %(succeeded)s"],
}


@pytest.fixture
def store(postgres_dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute("SET search_path = mutirao")
        yield connection


@pytest.fixture
def lives(store: psycopg.Connection) -> dict[str, UUID]:
    return clean_histories(store)


def test_finds_nothing_in_legal_histories(postgres_dsn: str, lives: dict[str, UUID]) -> None:
    assert check(postgres_dsn, lives.values()) == []


@pytest.mark.parametrize("rule", CORRUPTIONS)
def test_finds_a_seeded_violation(
    postgres_dsn: str, store: psycopg.Connection, lives: dict[str, UUID], rule: str
) -> None:
    for statement in CORRUPTIONS[rule]:
        assert store.execute(statement.encode(), {**lives, "stranger": uuid4()}).rowcount != 0
    found = {violation.rule for violation in check(postgres_dsn, lives.values())}
    assert rule in found


def test_every_rule_has_a_seeded_violation() -> None:
    assert {name for name in blocks() if not name.startswith("prepare_")} == set(CORRUPTIONS)


def test_finds_an_acknowledged_job_that_left_no_trace(postgres_dsn: str, lives: dict[str, UUID]) -> None:
    stranger = uuid4()
    assert [(v.rule, v.job) for v in check(postgres_dsn, [*lives.values(), stranger])] == [
        ("I1_acknowledged_job_is_missing", stranger)
    ]


def test_finds_an_outcome_that_the_handler_did_not_decide(postgres_dsn: str, lives: dict[str, UUID]) -> None:
    right = {
        lives["retried"]: Expected(State.SUCCEEDED, ("failed", "succeeded")),
        lives["dead"]: Expected(State.DEAD),
    }
    assert check(postgres_dsn, (), right) == []
    wrong = {
        lives["retried"]: Expected(State.SUCCEEDED, ("succeeded",)),
        lives["dead"]: Expected(State.SUCCEEDED),
    }
    assert {v.job for v in check(postgres_dsn, (), wrong) if v.rule == "outcome_differs"} == set(wrong)
