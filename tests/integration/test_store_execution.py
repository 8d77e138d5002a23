"""Claims and acknowledgements: one end, told by whoever ran it, and attempts that only count up (I4, I5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from uuid import uuid4

import pytest

from mutirao.domain.job import Outcome, State
from mutirao.errors import InvalidInput, Superseded
from mutirao.store.execution import ExecutionStore
from mutirao.tail import Output
from tests.support.checker import check
from tests.support.stage import Stage, ack, at_once


@pytest.fixture
def stage(postgres_dsn: str) -> Iterator[Stage]:
    with Stage(postgres_dsn) as stage:
        yield stage
        assert check(postgres_dsn) == []


def test_a_node_claims_what_it_was_given_best_rank_first(stage: Stage) -> None:
    node, other = stage.node(), stage.node()
    low, high = stage.given(node, priority=1), stage.given(node, priority=9)
    stage.given(other)
    assert [claim.job for claim in node.claim(1)] == high
    assert [(claim.job, claim.attempt, claim.bound) for claim in node.claim()] == [(low[0], 1, 4)]
    assert node.claim() == []


def test_an_old_incarnation_claims_nothing(stage: Stage) -> None:
    node = stage.node()
    (job,) = stage.given(node)
    stage.node(node.id, node.incarnation)
    with pytest.raises(Superseded):
        node.claim()
    with pytest.raises(Superseded):
        node.store.claimed(uuid4())
    assert stage.state(job) == State.QUEUED


def test_claims_at_once_share_out_what_there_is(stage: Stage) -> None:
    node = stage.node()
    given = stage.given(node, 40)
    claims = [claim for share in at_once([partial(node.claim, 10)] * 6) for claim in share]
    assert sorted(claim.job for claim in claims) == sorted(given)


@pytest.mark.parametrize(
    ("outcome", "delay", "state"),
    [
        (Outcome.SUCCEEDED, None, State.SUCCEEDED),
        (Outcome.FAILED, None, State.DEAD),
        (Outcome.FAILED, 5.0, State.SCHEDULED),
        (Outcome.FAILED, 0.0, State.QUEUED),
        (Outcome.TIMED_OUT, 1.0, State.SCHEDULED),
        (Outcome.REFUSED, None, State.DEAD),
        (Outcome.RUNNER_DIED, 0.0, State.QUEUED),
        (Outcome.CANCELLED, None, State.CANCELLED),
    ],
)
def test_an_attempts_end_leads_where_it_should(
    stage: Stage, outcome: Outcome, delay: float | None, state: State
) -> None:
    node = stage.node()
    (claim,) = stage.running(node)
    answer = node.end(claim, outcome, delay=delay, error='{"type": "E"}', result='{"n": 9007199254740993}')
    assert answer.applied == {claim.key: state}
    assert stage.steps(claim.job)[-1] == (outcome, "running", state)
    (attempt,) = stage.rows(
        "SELECT node, incarnation, attempt, outcome, error->>'type' AS error FROM attempts"
    )
    assert attempt == (node.id, node.incarnation, 1, outcome, "E")
    if state in (State.SUCCEEDED, State.DEAD):
        assert stage.rows("SELECT result::text FROM finished_jobs")[0].result == '{"n": 9007199254740993}'


def test_a_batch_of_ends_of_every_kind(stage: Stage) -> None:
    node = stage.node()
    good, bad, again, gone = stage.running(node, 4)
    node.end(gone)
    answer = node.store.acknowledge(
        [ack(good), ack(bad, Outcome.FAILED), ack(again, Outcome.FAILED, delay=9.0), ack(gone)]
    )
    assert answer.applied == {good.key: State.SUCCEEDED, bad.key: State.DEAD, again.key: State.SCHEDULED}
    assert answer.refused == {gone.key}


def test_a_retry_waits_its_delay_and_gets_a_new_rank(stage: Stage) -> None:
    node = stage.node()
    (claim,) = stage.running(node)
    before = stage.rows("SELECT rank FROM jobs")[0].rank
    node.end(claim, Outcome.FAILED, delay=30.0)
    (row,) = stage.rows("SELECT rank, extract(epoch FROM run_at - cluster_now()) AS wait FROM jobs")
    assert 29.0 < row.wait <= 30.0
    assert row.rank > before + 29.0


def test_a_late_end_is_refused_and_on_record(stage: Stage) -> None:
    """Once for each way in which the job may have moved on."""
    node = stage.node()
    ended, lost, retried = stage.running(node, 3)
    node.end(ended, Outcome.FAILED)
    node.end(retried, Outcome.FAILED, delay=0.0)
    (second,) = stage.start(node, [retried.job])
    next_life = stage.node(node.id, node.incarnation)
    late = node.store.acknowledge([ack(ended), ack(lost), ack(retried)])
    assert late.refused == {ended.key, lost.key, retried.key}
    assert late.applied == {}
    assert stage.state(ended.job) == State.DEAD
    for claim in (ended, lost, retried):
        assert stage.steps(claim.job)[-1] == ("ack_refused", None, None)
    assert next_life.end(second).refused == {second.key}, "given back with the incarnation that ran it"


def test_a_foreign_end_is_refused(stage: Stage) -> None:
    node, other = stage.node(), stage.node()
    (claim,) = stage.running(node)
    foreign = [
        other.store,
        ExecutionStore(stage.database, node.id, node.incarnation + 1),
        ExecutionStore(stage.database, node.id, node.incarnation - 1),
    ]
    for store in foreign:
        assert store.acknowledge([ack(claim)], again=True).refused == {claim.key}
    wrong_attempt = ack(claim)
    assert stage.state(claim.job) == State.RUNNING
    assert node.store.acknowledge([wrong_attempt]).applied == {claim.key: State.SUCCEEDED}


def test_an_end_counts_once_however_often_it_is_told(stage: Stage) -> None:
    node = stage.node()
    (claim,) = stage.running(node)
    answers = at_once([partial(node.end, claim)] * 8)
    assert sum(len(answer.applied) for answer in answers) == 1
    assert sum(len(answer.refused) for answer in answers) == 7
    assert [event for event, *_ in stage.steps(claim.job)].count("ack_refused") == 7


def test_attempts_are_bounded_and_never_reset(stage: Stage) -> None:
    node = stage.node()
    (claim,) = stage.running(node, max_retries=2)
    for number in (1, 2):
        assert claim.attempt == number
        assert node.end(claim, Outcome.FAILED, delay=0.0).applied == {claim.key: State.QUEUED}
        (claim,) = stage.start(node, [claim.job])
    # The runner asks for one more; the bound says no.
    assert node.end(claim, Outcome.FAILED, delay=0.0).applied == {claim.key: State.DEAD}
    assert [row.attempt for row in stage.rows("SELECT attempt FROM attempts ORDER BY attempt")] == [1, 2, 3]


def test_a_hand_back_costs_no_attempt(stage: Stage) -> None:
    node = stage.node()
    (claim,) = stage.running(node, max_retries=0)
    for number in range(2, 5):
        assert node.store.hand_back({claim.key: claim.token}) == {claim.key}
        row = stage.row(claim.job)
        assert (row.state, row.attempt, row.max_attempts) == (State.QUEUED, number - 1, number)
        (claim,) = stage.start(node, [claim.job])
        assert (claim.attempt, claim.bound) == (number, number)
    assert stage.count("attempts") == 0
    assert node.end(claim, Outcome.FAILED, delay=0.0).applied == {claim.key: State.DEAD}


def test_a_hand_back_needs_the_token_and_the_incarnation(stage: Stage) -> None:
    node = stage.node()
    (claim,) = stage.running(node)
    later = ExecutionStore(stage.database, node.id, node.incarnation + 1)
    assert node.store.hand_back({claim.key: uuid4()}) == frozenset()
    assert node.store.hand_back({(claim.job, 2): claim.token}) == frozenset()
    assert later.hand_back({claim.key: claim.token}) == frozenset()
    assert stage.state(claim.job) == State.RUNNING
    assert node.store.running() == {claim.key: claim.token}


def test_hand_backs_at_once_raise_the_bound_by_one(stage: Stage) -> None:
    node = stage.node()
    (claim,) = stage.running(node)
    at_once([partial(node.store.hand_back, {claim.key: claim.token})] * 6)
    assert stage.row(claim.job).max_attempts == claim.bound + 1


def test_a_node_returns_only_its_own_unstarted_jobs_and_their_rank_is_kept(stage: Stage) -> None:
    node, other = stage.node(), stage.node()
    (running,) = stage.running(node)
    mine, others = stage.given(node, 2), stage.given(other)
    ranks = "SELECT id, rank FROM jobs ORDER BY id"
    before = stage.rows(ranks)
    assert node.store.assigned() == 2
    assert node.store.return_assigned(1) == 1
    assert node.store.return_assigned(9) == 1
    assert stage.rows(ranks) == before
    assert {stage.state(job) for job in mine} == {State.QUEUED}
    assert (stage.state(running.job), stage.state(others[0])) == (State.RUNNING, State.ASSIGNED)


@pytest.mark.parametrize("value", ['{"a": "\\u0000"}', "{", '"\\ud800"', "[" * 100_000 + "]" * 100_000])
@pytest.mark.parametrize("field", ["result", "error"])
def test_a_value_that_cannot_be_stored_is_refused_and_holds_nothing(
    stage: Stage, field: str, value: str
) -> None:
    node = stage.node()
    good, bad = stage.running(node, 2)
    unstorable = replace(ack(bad, Outcome.FAILED), **{field: value})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        node.store.acknowledge([ack(good), unstorable])
    assert stage.state(good.job) == stage.state(bad.job) == State.RUNNING
    assert node.end(good).applied == {good.key: State.SUCCEEDED}
    assert node.end(bad, Outcome.REFUSED, error='{"type": "ResultRefused"}').applied == {bad.key: State.DEAD}


def test_what_runs_and_what_is_to_be_cancelled(stage: Stage) -> None:
    node = stage.node()
    one, two = stage.running(node, 2)
    stage.given(node)
    stage.jobs.cancel([two.job], "somebody")
    assert node.store.running() == {one.key: one.token, two.key: two.token}
    assert node.store.cancel_requests() == [two.key]


def test_an_attempts_output_is_kept_with_it_whatever_its_end(stage: Stage) -> None:
    node = stage.node()
    first, second, third = stage.running(node, 3)
    node.end(first, output=Output(b"a\0b\xff\xc3\xa9\n", 0))
    node.end(second, Outcome.FAILED, output=Output(b"\xa9" + b"x" * 100, 7), delay=0.0)
    node.end(third)
    said = {row.job_id: row for row in stage.rows("SELECT job_id, output, output_dropped FROM attempts")}
    assert (said[first.job].output, said[first.job].output_dropped) == ("a\ufffdb\ufffdé\n", 0)
    assert (said[second.job].output, said[second.job].output_dropped) == ("x" * 100, 7)
    assert (said[third.job].output, said[third.job].output_dropped) == (None, 0)


def test_a_claim_says_how_long_its_job_was_due(stage: Stage) -> None:
    node = stage.node()
    (fresh,) = stage.running(node)
    (job,) = stage.submit()
    stage.write("UPDATE jobs SET queued_at = now() - interval '90 s', run_at = now() - interval '60 s'")
    (waited,) = stage.start(node, [job])
    assert 0 <= fresh.waited < 50
    assert 60 <= waited.waited < 85
    assert node.store.claimed(waited.token)[0].waited == pytest.approx(waited.waited)
