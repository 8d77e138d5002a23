"""Commits whose outcome nobody knows: never taken for success, and tried again without doing it twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from mutirao.domain.job import Outcome, State
from mutirao.errors import OutcomeUnknown
from mutirao.store import connection
from mutirao.store.execution import Claim, ExecutionStore
from mutirao.store.migrate import migrate
from mutirao.store.once import Wish
from tests.support.stage import Node, Stage, ack, new_job
from tests.support.standby import Standby
from tests.support.waiting import until

Run = Callable[..., "Future[Any]"]


@pytest.fixture(scope="module")
def standby(server_home: Path) -> Iterator[Standby]:
    standby = Standby(server_home / "standby")
    standby.start()
    yield standby
    standby.stop()


@pytest.fixture(scope="module")
def dsn(standby: Standby) -> str:
    dsn = standby.create()
    migrate(dsn)
    return dsn


@pytest.fixture
def stage(dsn: str) -> Iterator[Stage]:
    with Stage(dsn) as stage:
        yield stage


@pytest.fixture
def run() -> Iterator[Run]:
    with ThreadPoolExecutor(4) as pool:
        yield pool.submit


def note(stage: Stage, name: str) -> None:
    with stage.database.transaction() as tx:
        tx.send(
            "INSERT INTO terms (term, holder, node) VALUES (0, %(name)s, gen_random_uuid())", {"name": name}
        )


def noted(stage: Stage, name: str) -> bool:
    return bool(stage.rows("SELECT 1 FROM terms WHERE holder = %s", name))


def test_a_cancelled_wait_raises_nothing_in_the_driver(standby: Standby, dsn: str, run: Run) -> None:
    """[T] It is a warning, and the row is there: for this server alone."""
    heard: list[str] = []
    with psycopg.connect(dsn, autocommit=True) as plain, standby.away():
        plain.add_notice_handler(lambda message: heard.append(message.severity or ""))
        written = run(plain.execute, "CREATE TABLE IF NOT EXISTS only_here (id int)")
        standby.cancel(standby.waiting())
        written.result(5.0)
        assert heard == ["WARNING"]
        assert plain.execute("SELECT count(*) FROM only_here").fetchall() == [(0,)]


def test_a_cancelled_wait_is_an_unknown_outcome(standby: Standby, stage: Stage, run: Run) -> None:
    with standby.away():
        written = run(note, stage, "cancelled")
        standby.cancel(standby.waiting())
        with pytest.raises(OutcomeUnknown):
            written.result(5.0)
    assert noted(stage, "cancelled")
    note(stage, "afterwards")


def test_a_backend_ended_at_commit_is_an_unknown_outcome(standby: Standby, stage: Stage, run: Run) -> None:
    with standby.away():
        written = run(note, stage, "terminated")
        standby.terminate(standby.waiting())
        with pytest.raises(OutcomeUnknown):
            written.result(5.0)
    assert noted(stage, "terminated")
    note(stage, "afterwards too")


def test_an_endless_wait_is_given_up_as_unknown(
    standby: Standby, stage: Stage, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_WITHIN", 0.5)
    with standby.away(), pytest.raises(OutcomeUnknown):
        run(note, stage, "given up").result(5.0)
    until(lambda: noted(stage, "given up"), 5.0, "the standby is back, and the server finishes")


def test_statement_timeout_does_not_bound_the_wait(standby: Standby, dsn: str, run: Run) -> None:
    """[T]"""
    long = b"""SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'SyncRep'
        AND clock_timestamp() - query_start > interval '0.5 s'"""
    options = "-c statement_timeout=100ms -c lock_timeout=100ms -c search_path=mutirao"
    with psycopg.connect(dsn, autocommit=True, options=options) as plain, psycopg.connect(dsn) as watcher:
        watcher.autocommit = True
        with standby.away():
            written = run(plain.execute, "UPDATE term SET beat = beat")
            standby.waiting()
            until(lambda: watcher.execute(long, (plain.info.backend_pid,)).fetchall(), 5.0, "a long wait")
            assert not written.done()
        written.result(5.0)


def test_a_transaction_that_wrote_nothing_waits_only_if_made_to(
    standby: Standby, stage: Stage, run: Run
) -> None:
    """[T] A yes that is read from an unreplicated commit would be no yes."""
    with standby.away():
        assert run(stage.jobs.states, []).result(5.0) == {}
        asked = run(stage.jobs.replay, [uuid4()], "somebody")
        assert asked.result(5.0) == frozenset()
        flushed = run(stage.jobs.cancel, [uuid4()], "somebody")
        standby.waiting()
        assert not flushed.done()
    assert flushed.result(5.0).ended == frozenset()


@pytest.mark.parametrize("key", [None, "the key"])
@pytest.mark.parametrize("how", ["cancel", "terminate"])
def test_a_submission_tried_again_is_stored_once(
    standby: Standby, stage: Stage, run: Run, key: str | None, how: str
) -> None:
    named = None if key is None else f"{key} {how}"
    jobs = [new_job(idempotency_key=named, request_hash=b"1"), new_job()]
    with standby.away():
        submitted = run(stage.jobs.submit, jobs)
        getattr(standby, how)(standby.waiting())
        standby.waiting()
        assert not submitted.done(), "the second try must not say yes before the standby does"
    answers = submitted.result(5.0)
    assert [(a.id, a.state, a.created) for a in answers] == [(job.id, State.QUEUED, True) for job in jobs]
    for job in jobs:
        assert stage.steps(job.id) == [("submitted", None, "queued")]


@pytest.mark.parametrize("key", [None, "the same key"])
def test_a_submission_repeated_while_the_first_still_waits(
    standby: Standby, stage: Stage, run: Run, key: str | None
) -> None:
    """The client that lost its connection asks again while the server still commits."""
    job = new_job(idempotency_key=key, request_hash=b"1")
    with standby.away():
        first = run(stage.jobs.submit, [job])
        standby.waiting()
        second = run(stage.jobs.submit, [job])
        until(
            lambda: stage.rows("SELECT 1 FROM pg_locks WHERE NOT granted"),
            5.0,
            "the second waits for the first",
        )
    for submitted in (first, second):
        (answer,) = submitted.result(5.0)
        assert (answer.id, answer.state) == (job.id, State.QUEUED)
    assert stage.steps(job.id) == [("submitted", None, "queued")]


@pytest.mark.parametrize("how", ["cancel", "terminate"])
def test_a_claim_is_found_again_under_its_token(standby: Standby, stage: Stage, run: Run, how: str) -> None:
    node = stage.node()
    given = set(stage.given(node, 3))
    token = uuid4()
    with standby.away():
        claimed = run(node.store.claim, token, 10)
        getattr(standby, how)(standby.waiting())
        with pytest.raises(OutcomeUnknown):
            claimed.result(5.0)
        asked = run(node.store.claimed, token)
        standby.waiting()
        assert not asked.done()
    claims = asked.result(5.0)
    assert {claim.job for claim in claims} == given
    assert {(claim.attempt, claim.token) for claim in claims} == {(1, token)}
    assert node.store.claimed(uuid4()) == []
    assert node.claim() == []


def test_a_key_granted_with_an_unknown_outcome_is_granted_again_to_the_same_question(
    standby: Standby, stage: Stage, run: Run
) -> None:
    node = stage.node()
    (claim,) = stage.running(node)
    asked, later = (Wish(claim.job, claim.attempt, "paid", uuid4()) for _ in range(2))
    with standby.away():
        granted = run(node.once.grant, [asked])
        standby.cancel(standby.waiting())
        with pytest.raises(OutcomeUnknown):
            granted.result(5.0)
        again, other = run(node.once.grant, [asked]), run(node.once.grant, [later])
        standby.waiting(2)
        assert not again.done() and not other.done(), "neither yes nor no before the standby has it"
    assert again.result(5.0) == {asked.token: True}
    assert other.result(5.0) == {later.token: False}


def end_unknown(standby: Standby, run: Run, node: Node, claim: Claim, outcome: Outcome) -> None:
    """The attempt's end is committed, and its answer lost."""
    with standby.away():
        ended = run(node.store.acknowledge, [ack(claim, outcome)])
        standby.cancel(standby.waiting())
        with pytest.raises(OutcomeUnknown):
            ended.result(5.0)


def test_an_end_told_again_is_repeated_not_refused(standby: Standby, stage: Stage, run: Run) -> None:
    node = stage.node()
    claim, other = stage.running(node, 2)
    end_unknown(standby, run, node, claim, Outcome.SUCCEEDED)
    with standby.away():
        again = run(node.store.acknowledge, [ack(claim), ack(other)], again=True)
        standby.waiting()
        assert not again.done()
    answer = again.result(5.0)
    assert (answer.repeated, answer.refused) == ({claim.key}, frozenset())
    assert answer.applied == {other.key: State.SUCCEEDED}
    assert [event for event, *_ in stage.steps(claim.job)][-1] == "succeeded"


def test_an_end_told_again_still_waits_when_nothing_is_written(
    standby: Standby, stage: Stage, run: Run
) -> None:
    """The first try is committed here alone: a yes must wait for the standby."""
    node = stage.node()
    (claim,) = stage.running(node)
    end_unknown(standby, run, node, claim, Outcome.SUCCEEDED)
    with standby.away():
        again = run(node.store.acknowledge, [ack(claim)], again=True)
        standby.waiting()
        assert not again.done()
    assert again.result(5.0).repeated == {claim.key}


def test_an_end_is_repeated_only_for_its_own_writer_and_outcome(
    standby: Standby, stage: Stage, run: Run
) -> None:
    node = stage.node()
    (claim,) = stage.running(node)
    end_unknown(standby, run, node, claim, Outcome.SUCCEEDED)
    for store, outcome in (
        (node.store, Outcome.FAILED),
        (stage.node().store, Outcome.SUCCEEDED),
        (ExecutionStore(stage.database, node.id, node.incarnation + 1), Outcome.SUCCEEDED),
    ):
        assert store.acknowledge([ack(claim, outcome)], again=True).refused == {claim.key}
    assert node.end(claim).refused == {claim.key}, "nothing was unknown: nothing is a repetition"
    assert [event for event, *_ in stage.steps(claim.job)][-4:] == ["ack_refused"] * 4
    assert stage.state(claim.job) == State.SUCCEEDED


def test_a_term_taken_with_an_unknown_outcome_is_held_after_all(
    standby: Standby, stage: Stage, run: Run
) -> None:
    seen = stage.terms.read()
    with standby.away():
        taken = run(stage.terms.take, seen, "unknown-holder", uuid4())
        standby.cancel(standby.waiting())
        standby.waiting()
        assert not taken.done()
    assert taken.result(5.0) == (seen.term + 1, "unknown-holder")


def test_a_beat_with_an_unknown_outcome_is_not_accepted(standby: Standby, stage: Stage, run: Run) -> None:
    node = stage.node()
    with standby.away():
        beaten = run(stage.nodes.beat, node.id, node.incarnation, node.counter + 1, True, 1)
        standby.cancel(standby.waiting())
        with pytest.raises(OutcomeUnknown):
            beaten.result(5.0)


def test_an_asynchronous_transaction_waits_for_nobody(standby: Standby, stage: Stage, run: Run) -> None:
    node = stage.node()
    counts = {("echo", Outcome.SUCCEEDED): (1, 0.5)}
    with standby.away():
        run(node.store.roll_up, counts).result(5.0)
    assert stage.count("outcome_minutes") == 1
