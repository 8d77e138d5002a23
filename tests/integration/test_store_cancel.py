"""Cancelling: it wins in every way out of running, and a job it races with ends once (I4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from mutirao.domain.job import ENDED, Outcome, State
from mutirao.store.execution import Claim
from mutirao.store.jobs import Cancelled
from tests.support.checker import check
from tests.support.stage import Node, Stage, at_once, plan, race

RACES = 200


@pytest.fixture
def stage(postgres_dsn: str) -> Iterator[Stage]:
    with Stage(postgres_dsn) as stage:
        yield stage
        assert check(postgres_dsn) == []


@pytest.mark.parametrize("state", [State.QUEUED, State.ASSIGNED, State.SCHEDULED])
def test_what_has_not_started_ends_at_once(stage: Stage, state: State) -> None:
    (job,) = stage.given(stage.node()) if state is State.ASSIGNED else stage.submit()
    if state is State.SCHEDULED:
        stage.write("DELETE FROM audit")
        stage.write("UPDATE jobs SET state = 'scheduled', queued_at = NULL")
        stage.write(
            "INSERT INTO audit (job_id, attempt, event, to_state, actor)"
            " VALUES (%s, 0, 'submitted', 'scheduled', 't')",
            job,
        )
    done = stage.jobs.cancel([job], "somebody")
    assert done == Cancelled(frozenset({job}), {}, {})
    assert stage.steps(job)[-1] == ("cancelled", state, "cancelled")
    assert stage.rows("SELECT actor FROM audit ORDER BY id DESC LIMIT 1")[0].actor == "somebody"


def test_what_runs_is_asked_for_once(stage: Stage) -> None:
    node = stage.node()
    (claim,) = stage.running(node)
    for _ in range(2):
        assert stage.jobs.cancel([claim.job], "somebody").asked == {claim.job: node.id}
    assert [event for event, *_ in stage.steps(claim.job)].count("cancel_requested") == 1


def test_what_has_ended_is_too_late(stage: Stage) -> None:
    node = stage.node()
    (claim,) = stage.running(node)
    node.end(claim)
    assert stage.jobs.cancel([claim.job], "somebody").too_late == {claim.job: State.SUCCEEDED}
    assert [event for event, *_ in stage.steps(claim.job)][-1] == "succeeded"


def lose_node(stage: Stage, node: Node) -> None:
    coordinator = stage.coordinator()
    assert coordinator.declare_lost(node.id, node.incarnation, node.counter, True) == 1


WAYS_OUT: dict[str, Callable[[Stage, Node, Claim], object]] = {
    "succeeded": lambda stage, node, claim: node.end(claim),
    "failed": lambda stage, node, claim: node.end(claim, Outcome.FAILED),
    "retry at once": lambda stage, node, claim: node.end(claim, Outcome.FAILED, delay=0.0),
    "retry later": lambda stage, node, claim: node.end(claim, Outcome.FAILED, delay=9.0),
    "killed for it": lambda stage, node, claim: node.end(claim, Outcome.CANCELLED),
    "handed back": lambda stage, node, claim: node.store.hand_back({claim.key: claim.token}),
    "node lost": lambda stage, node, claim: lose_node(stage, node),
    "node back": lambda stage, node, claim: stage.node(node.id, node.incarnation),
    "node left": lambda stage, node, claim: stage.nodes.leave(node.id, node.incarnation),
}


@pytest.mark.parametrize("leave", WAYS_OUT.values(), ids=WAYS_OUT)
@pytest.mark.parametrize("retries", [0, 3])
def test_it_wins_in_every_way_out_of_running(
    stage: Stage, leave: Callable[[Stage, Node, Claim], object], retries: int
) -> None:
    node = stage.node()
    (claim,) = stage.running(node, max_retries=retries)
    stage.jobs.cancel([claim.job], "somebody")
    leave(stage, node, claim)
    assert stage.state(claim.job) == State.CANCELLED
    assert stage.row(claim.job).cancel_requested_at is not None
    assert stage.steps(claim.job)[-1][1:] == ("running", "cancelled")


def test_cancel_against_claim(stage: Stage) -> None:
    node = stage.node()
    jobs = stage.submit(RACES)
    coordinator = stage.coordinator()
    for job in jobs:
        coordinator.assign(plan([job], node))
        cancelled, claims = race(partial(stage.jobs.cancel, [job], "me"), node.claim)
        if claims:
            # The node may learn of the cancel too late: whatever it says, the cancel stands.
            (claim,) = claims
            assert cancelled.asked == {job: node.id} or stage.jobs.cancel([job], "me").asked
            assert node.end(claim).applied == {claim.key: State.CANCELLED}
        else:
            assert cancelled.ended == {job}
        assert stage.state(job) == State.CANCELLED
    assert stage.count("finished_jobs") == RACES


def test_cancel_against_the_end(stage: Stage) -> None:
    node = stage.node()
    won = dict.fromkeys(ENDED, 0)
    for claim in stage.running(node, RACES):
        cancelled, answer = race(partial(stage.jobs.cancel, [claim.job], "me"), partial(node.end, claim))
        (end,) = answer.applied.values()
        assert stage.state(claim.job) == end
        won[end] += 1
        if end is State.SUCCEEDED:
            assert cancelled.too_late == {claim.job: State.SUCCEEDED}
        else:
            assert cancelled.asked == {claim.job: node.id}
    assert won[State.DEAD] == 0
    assert stage.count("finished_jobs") == RACES


def test_cancels_of_the_same_jobs_in_any_order_do_not_block_each_other(stage: Stage) -> None:
    node = stage.node()
    jobs = stage.submit(30)
    stage.start(node, jobs[:10])
    stage.coordinator().assign(plan(jobs[10:20], node))
    orders = [jobs, jobs[::-1], sorted(jobs), jobs[15:] + jobs[:15]]
    done = at_once([partial(stage.jobs.cancel, order, "me") for order in orders])
    assert sum(len(each.ended) for each in done) == 20
    assert all(each.asked == dict.fromkeys(jobs[:10], node.id) for each in done)


def test_a_cancel_does_not_hold_up_the_planning(stage: Stage) -> None:
    """A frozen web server inside its transaction keeps its own jobs, not the coordinator."""
    node = stage.node()
    held, free = stage.submit(2)
    coordinator = stage.coordinator()
    with stage.database.transaction() as tx:
        tx.rows("SELECT id FROM jobs WHERE id = %(id)s FOR UPDATE", {"id": held})
        assert coordinator.assign(plan([held, free], node)) == {node.id: 1}
    assert (stage.state(held), stage.state(free)) == (State.QUEUED, State.ASSIGNED)
