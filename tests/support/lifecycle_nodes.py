"""Random steps of nodes, alive and past it, and of workers with what they hold or only think they hold."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import MultipleResults, initialize, multiple, rule

from mutirao.domain.job import LIVE, Outcome, State
from mutirao.errors import Superseded
from mutirao.store.contracts import Adoption, ContractStore
from mutirao.store.execution import Claim, ExecutionStore
from tests.support.lifecycle_world import CLAIMS, JOBS, LIVES, World, owner_of, unusual
from tests.support.stage import Node, ack

OUTCOMES = [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.TIMED_OUT, Outcome.REFUSED, Outcome.CANCELLED]
DELAYS = [None, 0.0, 0.0, 1000.0]


class Nodes(World):
    """Incarnations that begin, beat and end."""

    @initialize(target=LIVES)
    def first_nodes(self) -> MultipleResults[Node]:
        return multiple(self.begin_node(), self.begin_node())

    @unusual
    @rule(target=LIVES)
    def join(self) -> Node:
        return self.begin_node()

    @unusual
    @rule(target=LIVES, life=LIVES)
    def register_again(self, life: Node) -> Node | MultipleResults[Node]:
        row = self.model.nodes[life.id]
        if not self.model.current(owner_of(life)):
            with pytest.raises(Superseded):
                self.stage.node(life.id, life.incarnation)
            return multiple()
        return self.next_life(life, row)

    @unusual
    @rule(target=LIVES, life=LIVES)
    def restart(self, life: Node) -> Node:
        """As an agent does that asks first which incarnation its row has now."""
        return self.next_life(life, self.model.nodes[life.id])

    @unusual
    @rule(life=LIVES, step=st.sampled_from([1, 1, 0, -1]), redis_on=st.booleans())
    def beat(self, life: Node, step: int, redis_on: bool) -> None:
        row = self.model.nodes[life.id]
        counter = row.counter + step
        moves = self.model.current(owner_of(life)) and step > 0
        assert self.stage.nodes.beat(life.id, life.incarnation, counter, redis_on, 1).moved is moves
        if moves:
            row.counter, row.redis_on = counter, redis_on

    @unusual
    @rule(life=LIVES)
    def drain(self, life: Node) -> None:
        self.stage.nodes.drain(life.id, life.incarnation)
        if self.model.current(owner_of(life)):
            self.model.nodes[life.id].status = "draining"

    @unusual
    @rule(life=LIVES)
    def leave(self, life: Node) -> None:
        row = self.model.nodes[life.id]
        if self.model.current(owner_of(life)):
            row.incarnation, row.status = row.incarnation + 1, "stopped"
        assert self.stage.nodes.leave(life.id, life.incarnation) == row.incarnation
        self.model.give_back(life.id)


class Workers(World):
    """Claims and what becomes of them."""

    @unusual
    @rule(target=CLAIMS, life=LIVES, limit=st.integers(1, 3))
    def claim(self, life: Node, limit: int) -> MultipleResults[Claim]:
        if not self.model.current(owner_of(life)):
            with pytest.raises(Superseded):
                life.claim(limit)
            return multiple()
        return multiple(*self.start_attempts(life, limit))

    @unusual
    @rule(
        some=st.one_of(st.none(), st.lists(CLAIMS, min_size=1, max_size=3, unique_by=lambda c: c.key)),
        life=LIVES,
        outcome=st.sampled_from(OUTCOMES),
        delay=st.sampled_from(DELAYS),
        again=st.booleans(),
        own=st.booleans(),
    )
    def end(
        self,
        some: list[Claim] | None,
        life: Node,
        outcome: Outcome,
        delay: float | None,
        again: bool,
        own: bool,
    ) -> None:
        told = some or [claim for claim, _ in self.running()[:2]]
        if not told:
            return
        store, owner = life.store, owner_of(life)
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

    @unusual
    @rule(
        one=st.one_of(st.none(), CLAIMS),
        life=LIVES,
        own=st.sampled_from([True, True, False]),
        token=st.booleans(),
    )
    def hand_back(self, one: Claim | None, life: Node, own: bool, token: bool) -> None:
        told = one or next((claim for claim, _ in self.running()), None)
        if told is None:
            return
        row = self.model.jobs[told.job]
        owner = row.owner if own and row.owner is not None else owner_of(life)
        store = ExecutionStore(self.stage.database, *owner)
        right = self.model.runs(told.key, owner) and token
        answer = store.hand_back({told.key: told.token if token else uuid4()})
        assert answer == ({told.key} if right else frozenset())
        if right:
            self.model.hand_back(told.job)

    @unusual
    @rule(
        life=LIVES,
        some=st.one_of(st.none(), st.lists(JOBS, min_size=1, max_size=3, unique=True)),
        former=st.integers(0, 1),
        contract=st.integers(0, 1),
    )
    def adopt(self, life: Node, some: list[UUID] | None, former: int, contract: int) -> None:
        wanted = some or list(self.model.jobs)
        store = ContractStore(self.stage.database, life.id)
        adoptions = [Adoption(job, former, contract) for job in wanted]
        if not self.model.current(owner_of(life)):
            with pytest.raises(Superseded):
                store.adopt(life.incarnation, adoptions)
            return
        rows = (self.model.jobs[job] for job in wanted)
        free = [row for row in rows if row.owner is None and row.state in LIVE and row.contract == former]
        assert store.adopt(life.incarnation, adoptions) == len(free)
        for row in free:
            row.contract = contract

    @unusual
    @rule(life=LIVES, limit=st.integers(1, 2))
    def return_assigned(self, life: Node, limit: int) -> None:
        waiting = self.model.assigned_to(owner_of(life))
        assert life.store.assigned() == len(waiting)
        assert life.store.return_assigned(limit) == min(limit, len(waiting))
        states = self.stage.jobs.states(list(waiting))
        returned = [job for job, state in states.items() if state is State.QUEUED]
        assert len(returned) == min(limit, len(waiting))
        self.model.requeue(returned)
