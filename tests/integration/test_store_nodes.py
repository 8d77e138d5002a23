"""Nodes: one incarnation at a time, beats that go forwards, and no job left with the past (I2, I7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from uuid import uuid4

import pytest

from mutirao.domain.job import Outcome, State
from mutirao.errors import Superseded
from mutirao.store.nodes import Identity
from tests.support.checker import check
from tests.support.stage import ECHO, Node, Stage, at_once, plan, race


@pytest.fixture
def stage(postgres_dsn: str) -> Iterator[Stage]:
    with Stage(postgres_dsn) as stage:
        yield stage
        assert check(postgres_dsn) == []


def beats(stage: Stage, node: Node) -> tuple[int, int]:
    found = stage.nodes.counter(node.id)
    assert found is not None
    return found


def test_a_registration_names_the_incarnation_it_follows(stage: Stage) -> None:
    node = stage.node()
    assert node.incarnation == 1
    for wrong in (None, 0, 2):
        with pytest.raises(Superseded):
            stage.node(node.id, wrong)
    assert stage.node(node.id, 1).incarnation == 2
    with pytest.raises(Superseded):
        stage.node(node.id, 1)


@pytest.mark.parametrize("former", [None, 1])
def test_of_registrations_at_once_one_gets_through(stage: Stage, former: int | None) -> None:
    me = Identity(uuid4(), "twin", "", 2, "1")
    if former is not None:
        stage.nodes.register(me, [ECHO], None)

    def register() -> int | None:
        try:
            return stage.nodes.register(me, [ECHO], former)[0]
        except Superseded:
            return None

    got = [incarnation for incarnation in at_once([register] * 6) if incarnation is not None]
    assert got == [(former or 0) + 1]


def test_beats_go_forwards_only(stage: Stage) -> None:
    node = stage.node()
    start = node.counter
    for counter, moves in ((start + 1, True), (start + 1, False), (start, False), (start + 9, True)):
        assert stage.nodes.beat(node.id, node.incarnation, counter, True, 3).moved is moves
    assert beats(stage, node) == (node.incarnation, start + 9)
    assert stage.node(node.id, node.incarnation).counter == start + 10


def test_a_superseded_beat_moves_nothing(stage: Stage) -> None:
    node = stage.node()
    following = stage.node(node.id, node.incarnation)
    reading = stage.nodes.beat(node.id, node.incarnation, following.counter + 50, False, 3)
    assert not reading.moved
    assert beats(stage, node) == (following.incarnation, following.counter)
    (row,) = reading.rows
    assert (row.incarnation, row.redis_on) == (following.incarnation, True)


def test_a_beat_reads_everyones(stage: Stage) -> None:
    one, two = stage.node(), stage.node()
    stage.nodes.beat(one.id, 1, one.counter + 1, False, 7)
    reading = stage.nodes.beat(two.id, 1, two.counter + 1, True, 5)
    rows = {row.node: (row.status, row.counter, row.redis_on, row.capacity) for row in reading.rows}
    assert rows[one.id] == ("live", one.counter + 1, False, 7)
    assert rows[two.id] == ("live", two.counter + 1, True, 5)


def test_a_loss_is_declared_only_of_what_was_judged(stage: Stage) -> None:
    """Whatever moved between the judgement and the writing speaks for the node."""
    node = stage.node()
    stage.running(node)
    coordinator = stage.coordinator()
    judged = (node.id, node.incarnation, node.counter, True)
    for changed in (
        (uuid4(), node.incarnation, node.counter, True),
        (node.id, node.incarnation + 1, node.counter, True),
        (node.id, node.incarnation, node.counter + 1, True),
        (node.id, node.incarnation, node.counter, False),
    ):
        assert coordinator.declare_lost(*changed) is None
    stage.nodes.beat(node.id, node.incarnation, node.counter + 1, True, 1)
    assert coordinator.declare_lost(*judged) is None
    assert stage.rows("SELECT state::text FROM jobs")[0].state == State.RUNNING
    assert coordinator.declare_lost(node.id, node.incarnation, node.counter + 1, True) == 1
    assert coordinator.declare_lost(node.id, node.incarnation, node.counter + 1, True) is None
    assert stage.rows("SELECT status, incarnation FROM nodes") == [("lost", node.incarnation + 1)]


def test_a_loss_waits_for_a_beat_under_way_and_heeds_it(stage: Stage) -> None:
    node = stage.node()
    coordinator = stage.coordinator()
    judged = partial(coordinator.declare_lost, node.id, node.incarnation, node.counter, True)
    with ExitStack() as stack:
        with stage.database.transaction() as tx:
            beat = "UPDATE beats SET counter = counter + 1 WHERE node = %(node)s"
            assert tx.execute(beat, {"node": node.id}) == 1
            declared = stack.enter_context(stage.later(judged))
            stage.blocked()
        assert declared.result(5.0) is None


def test_a_lost_nodes_jobs_move_on_by_what_they_may(stage: Stage) -> None:
    node = stage.node()
    (bounded,) = stage.running(node, max_retries=0)
    (retried,) = stage.running(node, max_retries=1)
    (assigned,) = stage.given(node)
    ranks = {row.id: row.rank for row in stage.rows("SELECT id, rank FROM jobs")}
    coordinator = stage.coordinator()
    assert coordinator.declare_lost(node.id, node.incarnation, node.counter, True) == 3
    assert stage.steps(assigned)[-1] == ("taken_back", "assigned", "queued")
    assert stage.rows("SELECT rank FROM jobs WHERE id = %s", assigned)[0].rank == ranks[assigned]
    assert stage.steps(bounded.job)[-1] == ("node_lost", "running", "dead")
    assert stage.row(bounded.job).error["type"] == "node_lost"
    assert stage.steps(retried.job)[-1] == ("node_lost", "running", "queued")
    assert stage.rows("SELECT outcome, incarnation FROM attempts") == [("node_lost", node.incarnation)] * 2
    other = stage.node()
    (last,) = stage.start(other, [retried.job])
    assert (last.attempt, last.bound) == (2, 2)
    assert stage.coordinator().assign(plan([assigned], node)) == {}, "the plan knew the lost incarnation"


def test_a_node_that_comes_back_frees_its_former_jobs_at_once(stage: Stage) -> None:
    node = stage.node()
    (running,) = stage.running(node)
    (assigned,) = stage.given(node)
    back = stage.node(node.id, node.incarnation)
    assert back.moved == 2
    assert stage.state(assigned) == stage.state(running.job) == State.QUEUED
    assert stage.coordinator().sweep() == 0


def test_a_plan_made_for_a_nodes_past_gives_its_present_nothing(stage: Stage) -> None:
    node = stage.node()
    (job,) = stage.submit()
    back = stage.node(node.id, node.incarnation)
    coordinator = stage.coordinator()
    assert coordinator.assign(plan([job], node)) == {}
    assert stage.state(job) == State.QUEUED
    assert coordinator.assign(plan([job], back)) == {node.id: 1}


def test_the_sweep_finds_what_was_left_with_the_past(stage: Stage) -> None:
    """As after a failover that lost the giving back, not the registration."""
    node = stage.node()
    node = stage.node(node.id, node.incarnation)
    (job,) = stage.given(node)
    (kept,) = stage.given(node)
    stage.write("UPDATE jobs SET incarnation = incarnation - 1 WHERE id = %s", job)
    assert node.store.assigned() == 1
    coordinator = stage.coordinator()
    assert coordinator.sweep() == 1
    assert coordinator.sweep() == 0
    assert (stage.state(job), stage.state(kept)) == (State.QUEUED, State.ASSIGNED)


def test_a_take_back_leaves_what_runs(stage: Stage) -> None:
    stale, fresh = stage.node(), stage.node()
    (running,) = stage.running(stale)
    (assigned,), (others,) = stage.given(stale), stage.given(fresh)
    assert stage.coordinator().take_back([stale.id]) == 1
    assert [stage.state(job) for job in (running.job, assigned, others)] == ["running", "queued", "assigned"]


def test_a_node_that_leaves_takes_nothing_along(stage: Stage) -> None:
    node = stage.node()
    (running,) = stage.running(node)
    (assigned,) = stage.given(node)
    stage.nodes.drain(node.id, node.incarnation)
    assert stage.coordinator().assign(plan(stage.submit(), node)) == {}, "it wants nothing new"
    now = stage.nodes.leave(node.id, node.incarnation)
    assert now == node.incarnation + 1
    assert stage.state(assigned) == stage.state(running.job) == State.QUEUED
    assert node.end(running).refused == {running.key}
    assert stage.node(node.id, now).incarnation == now + 1


def test_a_former_self_that_leaves_late_ends_nobody(stage: Stage) -> None:
    node = stage.node()
    following = stage.node(node.id, node.incarnation)
    (claim,) = stage.running(following)
    assert stage.nodes.leave(node.id, node.incarnation) == following.incarnation
    stage.nodes.drain(node.id, node.incarnation)
    assert following.end(claim).applied == {claim.key: State.SUCCEEDED}
    assert stage.rows("SELECT status FROM nodes") == [("live",)]


def test_claims_against_the_loss_of_their_node(stage: Stage) -> None:
    """Either the claim came first and is given back, or it is refused; none is left behind (I2, I7)."""
    coordinator = stage.coordinator()
    for _ in range(40):
        node = stage.node()
        (job,) = stage.submit()
        coordinator.assign(plan([job], node))

        def claim(node: Node = node) -> object:
            try:
                return node.claim()
            except Superseded:
                return None

        lose = partial(coordinator.declare_lost, node.id, node.incarnation, node.counter, True)
        race(claim, lose)
        assert stage.state(job) == State.QUEUED


def test_an_end_against_the_loss_of_its_node(stage: Stage) -> None:
    coordinator = stage.coordinator()
    for _ in range(40):
        node = stage.node()
        (claim,) = stage.running(node, max_retries=0)
        coordinator = stage.coordinator()
        lose = partial(coordinator.declare_lost, node.id, node.incarnation, node.counter, True)
        answer, _ = race(partial(node.end, claim), lose)
        assert stage.state(claim.job) == (State.SUCCEEDED if answer.applied else State.DEAD)


def test_everything_at_once_ends_every_job_once(stage: Stage) -> None:
    """A planner, workers, cancels and returns on the same jobs: no caller sees a deadlock, nothing sticks."""
    nodes = [stage.node() for _ in range(3)]
    contract = stage.contract("echo")
    jobs = stage.submit(60, max_retries=1, contract=contract)
    coordinator = stage.coordinator()

    def work(node: Node) -> None:
        for turn in range(60):
            for claim in node.claim(4):
                outcome = Outcome.FAILED if (claim.job.int + turn) % 3 == 0 else Outcome.SUCCEEDED
                node.end(claim, outcome, delay=0.0 if outcome is Outcome.FAILED else None)
            node.store.return_assigned(1)

    def plan_on() -> None:
        for turn in range(120):
            survey = coordinator.survey(20)
            coordinator.assign(plan([c.id for c in survey.candidates], nodes[turn % 3], contract))

    def cancel() -> None:
        for job in jobs[::4]:
            stage.jobs.cancel([job, jobs[0]], "me")

    everybody: list[Callable[[], None]] = [plan_on, cancel, *(partial(work, node) for node in nodes)]
    at_once(everybody)
    for node in nodes:
        stage.nodes.leave(node.id, node.incarnation)
    assert not stage.rows("SELECT 1 FROM jobs WHERE state IN ('assigned', 'running')")
