"""Jobs and the contracts they fit: given only to who serves them, adopted by one, never lost (I2, I7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from random import randbytes
from uuid import UUID

import pytest

from mutirao.domain.job import Outcome, State
from mutirao.domain.placement import plan as planned
from mutirao.domain.views import ContractView, RefusalView
from mutirao.errors import Superseded
from mutirao.store import contracts
from mutirao.store.contracts import Adoption, ContractStore, WaitingJob
from mutirao.store.insights import Insights
from tests.support.checker import check
from tests.support.stage import ECHO, Node, Stage, at_once, plan, race

OTHER = replace(ECHO, fingerprint="f2")
LATER = datetime.now(UTC) + timedelta(days=1)


@pytest.fixture
def stage(postgres_dsn: str) -> Iterator[Stage]:
    with Stage(postgres_dsn) as stage:
        yield stage
        assert check(postgres_dsn) == []


def published(stage: Stage) -> tuple[int, int]:
    """The ids of ECHO and OTHER, which a node that is gone has published."""
    node = stage.node()
    first = stage.contract("echo")
    node = stage.node(node.id, node.incarnation, OTHER)
    stage.nodes.leave(node.id, node.incarnation)
    return first, stage.contract("echo")


def store(stage: Stage, node: Node) -> ContractStore:
    return ContractStore(stage.database, node.id)


def adopt(stage: Stage, node: Node, jobs: Sequence[UUID], former: int, contract: int) -> int:
    return store(stage, node).adopt(node.incarnation, [Adoption(job, former, contract) for job in jobs])


def contract_of(stage: Stage, job: UUID) -> int:
    view = Insights(stage.database).job(job)
    assert view is not None
    return view.contract


def waiting(stage: Stage, node: Node, contract: int, *, among: bool) -> list[list[WaitingJob]]:
    return list(store(stage, node).waiting({"echo"}, [contract], among=among))


def door(stage: Stage) -> ContractView:
    (view,) = Insights(stage.database).contracts()
    return view


# Given to


def test_a_job_is_seen_for_those_only_who_serve_its_contract(stage: Stage) -> None:
    first, second = published(stage)
    one, two = stage.node(), stage.node(serves=OTHER)
    jobs = {contract: stage.submit(3, contract=contract) for contract in (0, first, second)}
    survey = stage.coordinator().survey(100)
    assert {c.id for c in survey.candidates} == {*jobs[first], *jobs[second]}
    rooms = {room.node: room.contracts for room in survey.rooms}
    assert rooms == {one.id: {first}, two.id: {second}}


def test_what_nobody_serves_is_in_nobodys_way(stage: Stage) -> None:
    _, second = published(stage)
    stage.submit(50, priority=9)
    jobs = stage.submit(2, priority=0, contract=second)
    stage.node(serves=OTHER)
    assert {c.id for c in stage.coordinator().survey(2).candidates} == set(jobs)


def test_what_its_nodes_have_no_room_for_hides_nothing_either(stage: Stage) -> None:
    first, second = published(stage)
    full, free = stage.node(), stage.node(serves=OTHER)
    stage.submit(50, priority=9, contract=first)
    stage.submit(2, priority=0, contract=second)
    coordinator = stage.coordinator()
    stage.write("UPDATE beats SET capacity = 1 WHERE node = %s", full.id)
    survey = coordinator.survey(2)
    assert [c.contract for c in survey.candidates] == [first, second, second]
    given = planned(survey.candidates, survey.rooms)
    assert coordinator.assign(given) == {full.id: 1, free.id: 2}
    assert coordinator.survey(2).candidates == []
    (more,) = stage.submit(1, priority=0, contract=second)
    assert [c.id for c in coordinator.survey(2).candidates] == [more]
    assert coordinator.survey(2, {free.id}).candidates == []


def test_what_is_seen_has_nothing_before_it_that_is_not(stage: Stage) -> None:
    first, second = published(stage)
    for version in (ECHO, OTHER):
        stage.node(serves=version)
    order = [first, first, second, first, second, second, first]
    jobs = [stage.submit(1, contract=contract)[0] for contract in order]
    coordinator = stage.coordinator()
    for limit, seen in ((1, 1), (2, 2), (3, 4), (4, 7), (9, 7)):
        survey = coordinator.survey(limit)
        assert [c.id for c in survey.candidates] == jobs[:seen], limit
    assert survey.longest == 4


def test_a_refused_contract_is_not_served_until_it_is_accepted(stage: Stage) -> None:
    first, _ = published(stage)
    node = stage.node(serves=replace(ECHO, refusal="job 1: payload.x: no"))
    (job,) = stage.submit(1, contract=first)
    assert stage.coordinator().survey(9).candidates == []
    store(stage, node).rule(node.incarnation, "echo", None)
    assert [c.id for c in stage.coordinator().survey(9).candidates] == [job]
    following = stage.node(node.id, node.incarnation)
    with pytest.raises(Superseded):
        store(stage, following).rule(node.incarnation, "echo", "no")


def test_what_was_adopted_since_the_plan_is_planned_again(stage: Stage) -> None:
    first, second = published(stage)
    one, two = stage.node(), stage.node(serves=OTHER)
    (job,) = stage.submit(1, contract=first)
    assert adopt(stage, two, [job], first, second) == 1
    coordinator = stage.coordinator()
    assert coordinator.assign(plan([job], one, first)) == {}
    assert coordinator.assign(plan([job], two, second)) == {two.id: 1}


# Adopted


def test_a_job_is_adopted_once_and_audited(stage: Stage) -> None:
    first, second = published(stage)
    node = stage.node(serves=OTHER)
    jobs = stage.submit(3, contract=first)
    calls = [partial(adopt, stage, node, jobs, first, second)] * 4
    assert sum(at_once(calls)) == 3
    assert {contract_of(stage, job) for job in jobs} == {second}
    for job in jobs:
        assert stage.steps(job) == [("submitted", None, "queued"), ("contract_adopted", None, None)]


def test_what_a_node_has_is_not_adopted(stage: Stage) -> None:
    first, second = published(stage)
    one, two = stage.node(), stage.node(serves=OTHER)
    assigned, running, ended = stage.submit(3, contract=first)
    coordinator = stage.coordinator()
    coordinator.assign(plan([running, ended], one, first))
    done, _ = one.claim()
    one.end(done)
    coordinator.assign(plan([assigned], one, first))
    assert adopt(stage, two, [assigned, running, ended], first, second) == 0


def test_a_superseded_incarnation_adopts_nothing(stage: Stage) -> None:
    first, second = published(stage)
    node = stage.node(serves=OTHER)
    jobs = stage.submit(2, contract=first)
    stage.node(node.id, node.incarnation, OTHER)
    with pytest.raises(Superseded):
        adopt(stage, node, jobs, first, second)
    assert contract_of(stage, jobs[0]) == first


def test_a_contract_outlives_every_way_back_and_the_end(stage: Stage) -> None:
    first, _ = published(stage)
    node = stage.node()
    (job,) = stage.submit(1, contract=first, max_retries=2)
    coordinator = stage.coordinator()

    def begin() -> None:
        assert coordinator.assign(plan([job], node, first)) == {node.id: 1}

    begin()
    coordinator.take_back([node.id])
    begin()
    (claim,) = node.claim()
    node.store.hand_back({claim.key: claim.token})
    begin()
    node.end(node.claim()[0], Outcome.FAILED, delay=0.0)
    begin()
    node.claim()
    node = stage.node(node.id, node.incarnation)
    begin()
    node.end(node.claim()[0], Outcome.FAILED)
    assert (stage.state(job), contract_of(stage, job)) == (State.DEAD, first)
    assert stage.jobs.replay([job], "somebody") == {job}
    assert contract_of(stage, job) == first
    stage.jobs.cancel([job], "somebody")
    assert contract_of(stage, job) == first


@pytest.mark.parametrize("turn", range(5))
def test_adoption_against_a_cancel_leaves_one_end(stage: Stage, turn: int) -> None:
    first, second = published(stage)
    node = stage.node(serves=OTHER)
    jobs = stage.submit(20, contract=first)
    cancelled, adopted = race(
        lambda: stage.jobs.cancel(jobs[turn:], "me"), lambda: adopt(stage, node, jobs, first, second)
    )
    assert cancelled.ended == set(jobs[turn:]) and adopted >= turn


def test_everything_at_once_starts_no_job_where_its_contract_is_not_served(stage: Stage) -> None:
    """Two versions; adopters that take jobs to and fro, a planner, workers, cancels, replays, a lost node."""
    ids = dict(zip((ECHO, OTHER), published(stage), strict=True))
    nodes = [stage.node(serves=version) for version in (ECHO, OTHER, ECHO, OTHER)]
    serves = {node.id: ids[version] for node, version in zip(nodes, (ECHO, OTHER) * 2, strict=True)}
    first, second = ids.values()
    jobs = [job for contract in (first, second) for job in stage.submit(40, contract=contract, max_retries=9)]
    coordinator = stage.coordinator()
    started: list[tuple[UUID, int]] = []

    def adopt_all(node: Node, former: int) -> None:
        for turn in range(30):
            adopt(stage, node, jobs[turn % 2 :: 2], former, serves[node.id])

    def plan_on() -> None:
        for _ in range(100):
            survey = coordinator.survey(10)
            rooms = [replace(room, capacity=room.load + 3) for room in survey.rooms]
            coordinator.assign(planned(survey.candidates, rooms))

    def lose() -> None:
        node = stage.node()
        for _ in range(20):
            coordinator.declare_lost(node.id, node.incarnation, node.counter, True)
            node = stage.node(node.id, node.incarnation + 1)
        stage.nodes.leave(node.id, node.incarnation)

    def replay() -> None:
        for _ in range(30):
            stage.jobs.replay(jobs, "me")

    def cancel() -> None:
        for job in jobs[::5]:
            stage.jobs.cancel([job], "me")

    def work(node: Node) -> None:
        for turn in range(40):
            for claim in node.claim(4):
                started.append((claim.job, serves[node.id]))
                assert contract_of(stage, claim.job) == serves[node.id]
                match (claim.job.int + turn) % 4:
                    case 0:
                        node.end(claim, Outcome.FAILED, delay=0.0)
                    case 1:
                        node.end(claim, Outcome.FAILED)
                    case _:
                        node.end(claim)
            node.store.return_assigned(1)

    everybody: list[Callable[[], None]] = [
        plan_on,
        partial(adopt_all, nodes[0], second),
        partial(adopt_all, nodes[1], first),
        lose,
        replay,
        cancel,
        *(partial(work, node) for node in nodes),
    ]
    at_once(everybody)
    assert len(started) > 40
    for node in nodes:
        stage.nodes.leave(node.id, node.incarnation)
    assert not stage.rows("SELECT 1 FROM jobs WHERE state IN ('assigned', 'running')")


# Found


def test_what_waits_is_gone_through_in_order_whatever_lies_between(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contracts, "STRETCH", 7)
    monkeypatch.setattr(contracts, "PAGE", 3)
    first, second = published(stage)
    node = stage.node()
    queued = [
        job for _ in range(8) for job in stage.submit(1, contract=first) + stage.submit(4, contract=second)
    ]
    later = [stage.submit(1, contract=first, run_at=LATER + timedelta(hours=n))[0] for n in range(8)]
    stage.submit(9, contract=second, run_at=LATER)
    stage.given(node, 2)
    mine = queued[::5] + later
    for among, contract in ((True, first), (False, second)):
        pages = waiting(stage, node, contract, among=among)
        assert max(map(len, pages)) <= 3
        assert [job.id for page in pages for job in page] == mine
    assert {job.payload for page in pages for job in page} == {b'{"message": "hi"}'}
    assert not list(store(stage, node).waiting(set(), [first], among=True))


def test_of_large_payloads_a_page_holds_fewer(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contracts, "BYTES", 50_000)
    monkeypatch.setattr(contracts, "PAGE", 6)
    node = stage.node()
    large = [f'"{randbytes(10_000).hex()}"' for _ in range(8)]
    jobs = [stage.submit(1, payload=payload)[0] for payload in large]
    pages = waiting(stage, node, 0, among=True)
    assert [job.id for page in pages for job in page] == jobs
    assert [job.payload.decode() for page in pages for job in page] == large
    assert 3 <= max(map(len, pages)) < 6
    monkeypatch.setattr(contracts, "BYTES", 1)
    assert [len(page) for page in waiting(stage, node, 0, among=True)] == [1] * 8


@pytest.mark.parametrize("run_at", [None, LATER])
def test_who_finds_nothing_for_long_may_stop_looking(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, run_at: datetime | None
) -> None:
    monkeypatch.setattr(contracts, "STRETCH", 3)
    node = stage.node()
    stage.submit(12, handler="sleep", run_at=run_at)
    (job,) = stage.submit(1, run_at=run_at)
    pages = list(store(stage, node).waiting({"echo"}, [], among=False))
    assert len(pages) >= 4
    assert [one.id for page in pages for one in page] == [job]


def test_a_handler_that_was_seen_enough_of_is_left_out(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contracts, "PAGE", 2)
    node = stage.node()
    stage.submit(6, handler="echo")
    rest = stage.submit(2, handler="sleep")
    wanted = {"echo", "sleep"}
    seen = []
    for page in store(stage, node).waiting(wanted, [], among=False):
        seen += [job.id for job in page]
        wanted.discard("echo")
    assert set(seen[2:]) == set(rest)


def test_what_nobody_serves_is_counted_until_it_is_served(stage: Stage) -> None:
    first, second = published(stage)
    two = stage.node(serves=OTHER)
    left = stage.submit(3, contract=first) + stage.submit(1, contract=first, run_at=LATER)
    stage.submit(5, contract=second)
    coordinator = stage.coordinator()
    coordinator.count_states()
    (standing,) = store(stage, two).standing()
    assert (standing.contract, standing.refusal, standing.unserved) == (second, None, frozenset({first}))
    assert door(stage).unserved_jobs == 4
    stage.jobs.cancel(left[:1], "somebody")
    coordinator.count_states()
    assert door(stage).unserved_jobs == 3
    stage.node()
    assert store(stage, two).standing()[0].unserved == frozenset(), "served since the count"
    coordinator.count_states()
    assert (door(stage).unserved_jobs, stage.count("unserved")) == (0, 0)


def test_what_nobody_serves_is_seen_before_it_is_counted(stage: Stage) -> None:
    first, second = published(stage)
    two = stage.node(serves=OTHER)
    coordinator = stage.coordinator()
    stage.submit(3, contract=second)
    coordinator.note_unserved()
    assert stage.count("unserved") == 0
    left = stage.submit(3, contract=first)
    coordinator.note_unserved()
    assert store(stage, two).standing()[0].unserved == frozenset({first})
    coordinator.count_states()
    coordinator.note_unserved()
    assert door(stage).unserved_jobs == 3
    stage.jobs.cancel(left, "somebody")
    coordinator.note_unserved()
    coordinator.count_states()
    assert stage.count("unserved") == 0


# The door


def test_the_door_goes_by_the_newest_that_is_served_then_by_the_last_that_was(stage: Stage) -> None:
    first, second = published(stage)
    assert (door(stage).id, door(stage).nodes) == (second, [])
    one = stage.node()
    assert (door(stage).id, door(stage).nodes) == (first, ["node"])
    two = stage.node(serves=OTHER)
    assert door(stage).id == second
    stage.nodes.leave(two.id, two.incarnation)
    assert door(stage).id == first
    stage.nodes.leave(one.id, one.incarnation)
    assert door(stage).id == second, "published last"


def test_the_door_changes_with_a_version_not_with_a_restart(stage: Stage) -> None:
    _, second = published(stage)
    one, other = stage.node(), stage.node()
    two = stage.node(serves=OTHER)
    one = stage.node(one.id, one.incarnation)
    assert door(stage).id == second
    for node in (one, other):
        stage.nodes.leave(node.id, node.incarnation)
    stage.node(one.id, one.incarnation + 1)
    assert door(stage).id == second
    two = stage.node(two.id, two.incarnation, OTHER)
    assert door(stage).id == second
    stage.node(other.id, other.incarnation + 1, OTHER)
    back = stage.node(two.id, two.incarnation)
    assert door(stage).id == second, "some still serve the newer one"
    stage.nodes.leave(back.id, back.incarnation)


def test_going_back_changes_the_door_at_once(stage: Stage) -> None:
    first, second = published(stage)
    one, two = stage.node(serves=OTHER), stage.node(serves=OTHER)
    assert door(stage).id == second
    stage.node(one.id, one.incarnation)
    assert door(stage).id == first
    stage.node(two.id, two.incarnation, OTHER)
    assert door(stage).id == first


def test_what_was_only_ever_refused_is_no_door(stage: Stage) -> None:
    node = stage.node(serves=replace(ECHO, refusal="job 1: payload.x: no"))
    view = door(stage)
    assert (view.accepted, view.nodes) == (False, [])
    assert view.refusals == [RefusalView(node="node", message="job 1: payload.x: no")]
    first = view.id
    store(stage, node).rule(node.incarnation, "echo", None)
    assert door(stage).accepted
    stage.node(node.id, node.incarnation, replace(OTHER, refusal="job 2: payload.y: no"))
    view = door(stage)
    assert (view.id, view.accepted, view.nodes) == (first, True, []), "what comes in waits under the former"
    assert [one.message for one in view.refusals] == ["job 2: payload.y: no"]


def test_what_was_never_served_is_no_door_when_nobody_has_it_any_more_either(stage: Stage) -> None:
    node = stage.node()
    first = door(stage).id
    refused = [replace(ECHO, fingerprint=name, refusal="no") for name in ("f2", "f3")]
    for former, version in enumerate(refused, 1):
        node = stage.node(node.id, former, version)
        view = door(stage)
        assert (view.id, view.accepted) == (first, True), version.fingerprint
    store(stage, node).rule(node.incarnation, "echo", None)
    third = door(stage)
    assert third.fingerprint == "f3"
    stage.nodes.leave(node.id, node.incarnation)
    stage.node()
    assert door(stage).id == first


def test_in_service_is_what_a_live_node_or_ones_own_past_serves(stage: Stage) -> None:
    first, refused = stage.node(), stage.node(serves=replace(OTHER, refusal="no"))
    assert store(stage, refused).in_service() == {("echo", "f1")}
    stage.nodes.leave(first.id, first.incarnation)
    assert store(stage, refused).in_service() == frozenset()
    assert store(stage, first).in_service() == {("echo", "f1")}
    assert len(store(stage, first).known([ECHO, OTHER, replace(ECHO, fingerprint="f9")])) == 2
