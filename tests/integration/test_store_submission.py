"""Submissions: all or none; a key is one job for as long as it is kept, whatever becomes of the job (I1)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import uuid4

import pytest

from mutirao.domain.job import NewJob, Outcome, State
from mutirao.errors import Conflict, InvalidInput, StoreUnavailable
from tests.support.stage import Stage, at_once, new_job


@pytest.fixture
def stage(postgres_dsn: str) -> Iterator[Stage]:
    with Stage(postgres_dsn) as stage:
        yield stage


def keyed(key: str, body: bytes = b"1") -> NewJob:
    return new_job(idempotency_key=key, request_hash=body)


def test_twenty_at_once_under_one_key_are_one_job(stage: Stage) -> None:
    jobs = [keyed("once") for _ in range(20)]
    answers = [answer for (answer,) in at_once([partial(stage.jobs.submit, [job]) for job in jobs])]
    assert len({answer.id for answer in answers}) == 1
    assert [answer.created for answer in answers].count(True) == 1
    assert stage.count("jobs") == stage.count("audit") == stage.count("submissions") == 1


def test_batches_that_share_keys_in_any_order_do_not_block_each_other(stage: Stage) -> None:
    names = [f"key-{i}" for i in range(10)]
    batches = [[keyed(name) for name in order] for order in (names, names[::-1]) for _ in range(3)]
    at_once([partial(stage.jobs.submit, batch) for batch in batches])
    assert stage.count("jobs") == len(names)


def test_the_same_key_with_another_body_is_a_conflict(stage: Stage) -> None:
    stage.jobs.submit([keyed("mine")])
    with pytest.raises(Conflict, match="mine"):
        stage.jobs.submit([keyed("mine", b"2")])
    assert stage.count("jobs") == 1


def test_a_conflict_in_a_batch_stores_none_of_it(stage: Stage) -> None:
    stage.jobs.submit([keyed("mine")])
    with pytest.raises(Conflict):
        stage.jobs.submit([new_job(), keyed("new"), keyed("mine", b"2")])
    assert (stage.count("jobs"), stage.count("submissions")) == (1, 1)


def test_a_refused_value_in_a_batch_stores_none_of_it(stage: Stage) -> None:
    for payload in ('{"a": "\\u0000"}', "{", '{"a": NaN}'):
        with pytest.raises(InvalidInput):
            stage.jobs.submit([new_job(), keyed("new"), new_job(payload=payload)])
    assert stage.count("jobs") == stage.count("submissions") == stage.count("audit") == 0


def test_a_key_twice_in_a_batch_is_one_job(stage: Stage) -> None:
    first, again, other = keyed("twice"), keyed("twice"), new_job()
    answers = stage.jobs.submit([first, other, again])
    assert [(a.id, a.created) for a in answers] == [(first.id, True), (other.id, True), (first.id, False)]
    assert stage.count("jobs") == 2
    with pytest.raises(Conflict):
        stage.jobs.submit([keyed("thrice"), keyed("thrice", b"2")])


def test_even_an_empty_key_is_only_its_own_jobs(stage: Stage) -> None:
    answers = stage.jobs.submit([keyed(""), new_job(), new_job()])
    assert len({answer.id for answer in answers}) == 3
    assert all(answer.created for answer in answers)


@pytest.mark.parametrize("end", [State.SUCCEEDED, State.DEAD, State.CANCELLED])
def test_a_key_outlives_its_job(stage: Stage, end: State) -> None:
    (made,) = stage.jobs.submit([new_job(idempotency_key="kept", request_hash=b"1", max_retries=0)])
    if end is State.CANCELLED:
        stage.jobs.cancel([made.id], "somebody")
    else:
        node = stage.node()
        (claim,) = stage.start(node, [made.id])
        node.end(claim, Outcome.SUCCEEDED if end is State.SUCCEEDED else Outcome.FAILED)
    (answer,) = stage.jobs.submit([keyed("kept")])
    assert (answer.id, answer.state, answer.created) == (made.id, end, False)
    assert stage.count("jobs") == 0


def test_a_key_is_let_go_of_after_its_time_only(stage: Stage) -> None:
    stage.jobs.submit([keyed("old"), keyed("young")])
    stage.write("UPDATE submissions SET created_at = now() - interval '8 days' WHERE idempotency_key = 'old'")
    assert stage.jobs.forget_keys(7 * 86400.0) == 1
    old, young = stage.jobs.submit([keyed("old", b"2"), keyed("young")])
    assert (old.created, young.created) == (True, False)


def test_a_job_for_later_is_scheduled_and_queued_when_due(stage: Stage) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    past = datetime.now(UTC) - timedelta(hours=1)
    later, now = stage.jobs.submit([new_job(run_at=soon), new_job(run_at=past)])
    assert (later.state, now.state) == (State.SCHEDULED, State.QUEUED)
    coordinator = stage.coordinator()
    assert coordinator.promote_due() == 0
    seconds = coordinator.next_due()
    assert seconds is not None and 3500 < seconds <= 3600
    stage.write("UPDATE jobs SET run_at = now() - interval '1 s' WHERE id = %s", later.id)
    assert coordinator.promote_due() == 1
    assert stage.steps(later.id) == [("submitted", None, "scheduled"), ("due", "scheduled", "queued")]


def test_time_goes_on_when_a_servers_clock_was_ahead(stage: Stage) -> None:
    """The floor keeps time from running back; it must not keep it from running (I7)."""
    office = stage.office()
    stage.write("UPDATE term SET clock_floor = clock_timestamp() + interval '1 year'")
    now = "SELECT cluster_now() AS now"
    before = stage.rows(now)[0].now
    stage.terms.beat(office, 10.0)
    gone = (stage.rows(now)[0].now - before).total_seconds()
    assert 0 < gone <= 10.0
    stage.terms.beat(office, 0.0)
    assert (stage.rows(now)[0].now - before).total_seconds() >= gone


def test_priorities_and_times_make_the_rank(stage: Stage) -> None:
    node = stage.node()
    stage.nodes.drain(node.id, node.incarnation)
    contract = stage.contract("echo")
    normal, urgent = (stage.submit(1, priority=level, contract=contract)[0] for level in (5, 9))
    rank = {row.id: row.rank for row in stage.rows("SELECT id, rank FROM jobs")}
    assert 239.0 < rank[normal] - rank[urgent] <= 240.0
    survey = stage.coordinator().survey(10)
    assert survey.candidates == [], "no live node serves them"
    stage.node(node.id, node.incarnation)
    assert [c.id for c in stage.coordinator().survey(10).candidates] == [urgent, normal]


def test_payloads_come_back_as_exact_as_they_went_in(stage: Stage) -> None:
    payload = '{"n": 9007199254740993, "d": 0.1, "t": "\\\\u0000 ünï 🚀", "l": [1e3, -0.0]}'
    node = stage.node()
    (claim,) = stage.running(node, payload=payload)
    assert "9007199254740993" in claim.payload
    assert '"t": "\\\\u0000 ünï 🚀"' in claim.payload


def test_a_store_that_cannot_be_reached_says_so() -> None:
    with (
        Stage("postgresql://nobody@/nowhere?host=/nonexistent", timeout=0.5) as stage,
        pytest.raises(StoreUnavailable),
    ):
        stage.jobs.submit([new_job()])


def test_unknown_ids_are_nobodys(stage: Stage) -> None:
    stranger = uuid4()
    assert stage.jobs.states([stranger]) == {}
    assert stage.jobs.cancel([stranger], "me").too_late == {}
    assert stage.jobs.replay([stranger], "me") == stage.jobs.discard([stranger], "me") == frozenset()
