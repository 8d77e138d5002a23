"""Random steps, legal and not, by everybody at once on one real database: each answers as the model says.

After every step the tables equal the model; after every run the checker finds I1 and I3 to I6 kept.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import ClassVar
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from mutirao.domain.job import ENDED, Outcome, State
from mutirao.errors import Conflict, Fenced, Superseded
from mutirao.store.assignment import AssignmentStore
from mutirao.store.database import TermHeld
from mutirao.store.execution import Claim, ExecutionStore
from tests.support.checker import check
from tests.support.lifecycle_model import Job, Model, NodeRow, Owner
from tests.support.stage import Node, Stage, ack, new_job, plan

FULL = 1000
OUTCOMES = [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.TIMED_OUT, Outcome.REFUSED, Outcome.CANCELLED]
PRESENT = """
SELECT id, state::text, attempt, max_attempts, node, incarnation, claim_token,
       cancel_requested_at IS NOT NULL AS cancel, false AS discarded FROM jobs
UNION ALL
SELECT id, state::text, attempt, max_attempts, NULL, NULL, NULL,
       cancel_requested_at IS NOT NULL, discarded_at IS NOT NULL FROM finished_jobs
"""


class Lifecycle(RuleBasedStateMachine):
    jobs: Bundle[UUID] = Bundle("jobs")
    lives: Bundle[Node] = Bundle("lives")
    claims: Bundle[Claim] = Bundle("claims")
    offices: Bundle[TermHeld] = Bundle("offices")

    stage: ClassVar[Stage]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.stage.clear()

    # Submitters

    @rule(
        target=jobs,
        retries=st.integers(0, 2),
        later=st.booleans(),
        key=st.sampled_from([None, None, "a", "b"]),
        body=st.sampled_from([b"1", b"2"]),
    )
    def submit(self, retries: int, later: bool, key: str | None, body: bytes) -> UUID | MultipleResults[UUID]:
        run_at = datetime.now(UTC) + timedelta(days=1) if later else None
        job = new_job(max_retries=retries, run_at=run_at, idempotency_key=key, request_hash=body)
        known = self.model.keys.get(key or "")
        if known is not None and known[0] != body:
            with pytest.raises(Conflict):
                self.stage.jobs.submit([job])
            return multiple()
        (answer,) = self.stage.jobs.submit([job])
        if known is not None:
            assert (answer.id, answer.created) == (known[1], False)
            assert answer.state == self.model.jobs[known[1]].state
            return multiple()
        state = State.SCHEDULED if later else State.QUEUED
        assert (answer.id, answer.state, answer.created) == (job.id, state, True)
        self.model.jobs[job.id] = Job(state, retries, retries + 1)
        if key is not None:
            self.model.keys[key] = (body, job.id)
        return job.id

    @rule(wanted=st.lists(jobs, min_size=1, max_size=3, unique=True))
    def cancel(self, wanted: list[UUID]) -> None:
        done = self.stage.jobs.cancel(wanted, "somebody")
        for job in wanted:
            row = self.model.jobs[job]
            if row.state is State.RUNNING:
                row.cancel = True
                assert row.owner is not None and done.asked[job] == row.owner[0]
            elif row.state in ENDED:
                assert done.too_late[job] == row.state
            else:
                assert job in done.ended
                row.cancel = True
                row.move(State.CANCELLED)

    @rule(wanted=st.lists(jobs, min_size=1, max_size=3, unique=True))
    def replay(self, wanted: list[UUID]) -> None:
        expected = {job for job in wanted if self.model.replay(job)}
        assert self.stage.jobs.replay(wanted, "somebody") == expected

    @rule(job=jobs)
    def discard(self, job: UUID) -> None:
        row = self.model.jobs[job]
        is_letter = row.state is State.DEAD and not row.discarded
        assert self.stage.jobs.discard([job], "somebody") == ({job} if is_letter else frozenset())
        row.discarded |= is_letter

    # Coordinators, in office and past it

    @initialize(target=offices)
    def first_term(self) -> TermHeld:
        return self._take_term()

    @rule(target=offices)
    def new_term(self) -> TermHeld:
        return self._take_term()

    @rule(office=offices)
    def term_beat(self, office: TermHeld) -> None:
        with self._fenced(office):
            self.stage.terms.beat(office, 0.0)

    @rule(office=offices, life=lives, wanted=st.lists(jobs, min_size=1, max_size=4, unique=True))
    def assign(self, office: TermHeld, life: Node, wanted: list[UUID]) -> None:
        takes = self.model.current(_owner(life)) and self.model.nodes[life.id].status == "live"
        ready = [job for job in wanted if self.model.jobs[job].state is State.QUEUED] if takes else []
        with self._fenced(office):
            given = self._by(office).assign(plan(wanted, life))
            assert given == ({life.id: len(ready)} if ready else {})
            for job in ready:
                self.model.jobs[job].state, self.model.jobs[job].owner = State.ASSIGNED, _owner(life)

    @rule(office=offices)
    def time_passes(self, office: TermHeld) -> None:
        self.stage.write("UPDATE jobs SET run_at = now() - interval '1 s' WHERE state = 'scheduled'")
        due = self.model.among(lambda job: job.state is State.SCHEDULED)
        with self._fenced(office):
            assert self._by(office).promote_due(FULL) == len(due)
            self.model.requeue(due)

    @rule(office=offices, life=lives)
    def take_back(self, office: TermHeld, life: Node) -> None:
        taken = self.model.among(
            lambda job: job.state is State.ASSIGNED and job.owner is not None and job.owner[0] == life.id
        )
        with self._fenced(office):
            assert self._by(office).take_back([life.id]) == len(taken)
            self.model.requeue(taken)

    @rule(office=offices)
    def sweep(self, office: TermHeld) -> None:
        with self._fenced(office):
            assert self._by(office).sweep() == 0

    @rule(office=offices, life=lives, seen=st.sampled_from([0, 0, 0, -1, 1]), redis_on=st.booleans())
    def declare_lost(self, office: TermHeld, life: Node, seen: int, redis_on: bool) -> None:
        row = self.model.nodes[life.id]
        judged = (life.id, life.incarnation, row.counter + seen, redis_on)
        true = self.model.current(_owner(life)) and row.status in ("live", "draining")
        true = true and seen == 0 and redis_on == row.redis_on
        with self._fenced(office):
            moved = self._by(office).declare_lost(*judged)
            if true:
                row.incarnation, row.status = row.incarnation + 1, "lost"
                assert moved == self.model.give_back(life.id)
            else:
                assert moved is None

    # Nodes, alive and past it

    @rule(target=lives)
    def join(self) -> Node:
        return self._join()

    @initialize(target=lives)
    def first_node(self) -> Node:
        return self._join()

    @rule(target=lives, life=lives)
    def register_again(self, life: Node) -> Node | MultipleResults[Node]:
        row = self.model.nodes[life.id]
        if not self.model.current(_owner(life)):
            with pytest.raises(Superseded):
                self.stage.node(life.id, life.incarnation)
            return multiple()
        return self._next_life(life, row)

    @rule(target=lives, life=lives)
    def restart(self, life: Node) -> Node:
        """As an agent does that asks first which incarnation its row has now."""
        return self._next_life(life, self.model.nodes[life.id])

    @rule(life=lives, step=st.sampled_from([1, 1, 0, -1]), redis_on=st.booleans())
    def beat(self, life: Node, step: int, redis_on: bool) -> None:
        row = self.model.nodes[life.id]
        counter = row.counter + step
        moves = self.model.current(_owner(life)) and step > 0
        assert self.stage.nodes.beat(life.id, life.incarnation, counter, redis_on, 1).moved is moves
        if moves:
            row.counter, row.redis_on = counter, redis_on

    @rule(life=lives)
    def drain(self, life: Node) -> None:
        self.stage.nodes.drain(life.id, life.incarnation)
        if self.model.current(_owner(life)):
            self.model.nodes[life.id].status = "draining"

    @rule(life=lives)
    def leave(self, life: Node) -> None:
        row = self.model.nodes[life.id]
        if self.model.current(_owner(life)):
            row.incarnation, row.status = row.incarnation + 1, "stopped"
        assert self.stage.nodes.leave(life.id, life.incarnation) == row.incarnation
        self.model.give_back(life.id)

    # Workers, with what they hold and what they only think they hold

    @rule(target=claims, life=lives, limit=st.integers(1, 3))
    def claim(self, life: Node, limit: int) -> MultipleResults[Claim]:
        token = uuid4()
        if not self.model.current(_owner(life)):
            with pytest.raises(Superseded):
                life.store.claim(token, limit)
            return multiple()
        waiting = self.model.assigned_to(_owner(life))
        claims = life.store.claim(token, limit)
        assert len(claims) == min(limit, len(waiting))
        for claim in claims:
            row = waiting.pop(claim.job)
            row.state, row.attempt, row.token = State.RUNNING, row.attempt + 1, token
            assert (claim.attempt, claim.bound) == (row.attempt, row.bound)
        assert sorted(claim.key for claim in life.store.claimed(token)) == sorted(c.key for c in claims)
        return multiple(*claims)

    @rule(
        told=st.lists(claims, min_size=1, max_size=3, unique_by=lambda claim: claim.key),
        life=lives,
        outcome=st.sampled_from(OUTCOMES),
        delay=st.sampled_from([None, 0.0, FULL]),
        again=st.booleans(),
        own=st.booleans(),
    )
    def end(
        self, told: list[Claim], life: Node, outcome: Outcome, delay: float | None, again: bool, own: bool
    ) -> None:
        store, owner = life.store, _owner(life)
        row = self.model.jobs[told[0].job]
        if own and row.owner is not None:
            owner = row.owner
            store = ExecutionStore(self.stage.database, *owner)
        applied = {c.key for c in told if self.model.runs(c.key, owner)}
        repeated = {c.key for c in told if again and self.model.ends.get(c.key) == (owner, outcome)} - applied
        answer = store.acknowledge([ack(claim, outcome, delay=delay) for claim in told], again=again)
        assert answer.applied == {key: self.model.end(key, outcome, delay) for key in applied}
        assert answer.repeated == repeated
        assert answer.refused == {claim.key for claim in told} - applied - repeated

    @rule(told=claims, life=lives, own=st.booleans(), token=st.booleans())
    def hand_back(self, told: Claim, life: Node, own: bool, token: bool) -> None:
        row = self.model.jobs[told.job]
        owner = row.owner if own and row.owner is not None else _owner(life)
        store = ExecutionStore(self.stage.database, *owner)
        right = self.model.runs(told.key, owner) and token
        answer = store.hand_back({told.key: told.token if token else uuid4()})
        assert answer == ({told.key} if right else frozenset())
        if right:
            self.model.hand_back(told.job)

    @rule(life=lives, limit=st.integers(1, 2))
    def return_assigned(self, life: Node, limit: int) -> None:
        waiting = self.model.assigned_to(_owner(life))
        assert life.store.assigned() == len(waiting)
        assert life.store.return_assigned(limit) == min(limit, len(waiting))
        states = self.stage.jobs.states(list(waiting))
        returned = [job for job, state in states.items() if state is State.QUEUED]
        assert len(returned) == min(limit, len(waiting))
        self.model.requeue(returned)

    # What holds after every step, and after every run

    @invariant()
    def the_tables_are_as_the_model_says(self) -> None:
        rows = {row[0]: (State(row[1]), *row[2:]) for row in self.stage.rows(PRESENT)}
        assert rows == {job: row.seen() for job, row in self.model.jobs.items()}
        nodes = self.stage.rows(
            "SELECT id, nodes.incarnation, counter, status, redis_on, beats.incarnation AS beats"
            " FROM nodes JOIN beats ON node = id"
        )
        assert {tuple(row) for row in nodes} == {
            (node, row.incarnation, row.counter, row.status, row.redis_on, row.incarnation)
            for node, row in self.model.nodes.items()
        }

    def teardown(self) -> None:
        assert check(self.stage.dsn, acknowledged=self.model.jobs) == []

    def _take_term(self) -> TermHeld:
        self.model.office = self.stage.office()
        return self.model.office

    def _join(self) -> Node:
        node = self.stage.node()
        self.model.nodes[node.id] = NodeRow(node.incarnation, node.counter)
        return node

    def _next_life(self, life: Node, row: NodeRow) -> Node:
        node = self.stage.node(life.id, row.incarnation)
        assert (node.incarnation, node.counter) == (row.incarnation + 1, row.counter + 1)
        self.model.nodes[life.id] = NodeRow(node.incarnation, node.counter)
        assert node.moved == self.model.give_back(life.id)
        return node

    def _by(self, office: TermHeld) -> AssignmentStore:
        return AssignmentStore(self.stage.database, office)

    def _fenced(self, office: TermHeld) -> AbstractContextManager[object]:
        """What is written within is written in office, or raises."""
        return nullcontext() if office == self.model.office else pytest.raises(Fenced)


def _owner(life: Node) -> Owner:
    return life.id, life.incarnation


def test_every_step_of_every_life_is_as_the_model_says(postgres_dsn: str) -> None:
    with Stage(postgres_dsn) as stage:
        Lifecycle.stage = stage
        run_state_machine_as_test(
            Lifecycle,
            settings=settings(
                max_examples=40,
                stateful_step_count=40,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
