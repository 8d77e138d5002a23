"""The world that random steps are taken in: the real stage, its model, and what both have seen so far."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from itertools import count
from typing import ClassVar
from uuid import UUID, uuid4

import pytest
from hypothesis.stateful import Bundle, RuleBasedStateMachine, precondition

from mutirao.domain.job import State
from mutirao.errors import Fenced
from mutirao.store.assignment import AssignmentStore
from mutirao.store.database import TermHeld
from mutirao.store.execution import Claim
from tests.support.lifecycle_model import Model, NodeRow, Owner
from tests.support.stage import Node, Stage

JOBS: Bundle[UUID] = Bundle("jobs")
LIVES: Bundle[Node] = Bundle("lives")
CLAIMS: Bundle[Claim] = Bundle("claims")
OFFICES: Bundle[TermHeld] = Bundle("offices")

# Every second step, if it can be, belongs to the ordinary course of things.
unusual = precondition(lambda self: self.turn % 2 == 0 or not (self.running() or self.living()))


class World(RuleBasedStateMachine):
    """One database and its model, empty at first."""

    stage: ClassVar[Stage]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.begun: list[Node] = []
        self.told: list[Claim] = []
        self.turn = 0
        # Equal ranks go by id: a run that is repeated must have the same ones.
        self.ids = (UUID(int=number) for number in count(1))
        self.stage.clear()

    def living(self) -> list[Node]:
        """The lives that are their nodes' present ones, and take work."""
        return [
            life
            for life in self.begun
            if self.model.current(owner_of(life)) and self.model.nodes[life.id].status == "live"
        ]

    def queued(self) -> list[UUID]:
        """What waits to be given out."""
        return list(self.model.among(lambda job: job.state is State.QUEUED))

    def office(self) -> TermHeld:
        """The office that is held."""
        assert self.model.office is not None
        return self.model.office

    def running(self) -> list[tuple[Claim, Owner]]:
        """The attempts that run, and where; the longest known first."""
        runs = ((claim, self.model.jobs[claim.job].owner) for claim in self.told)
        return [(claim, owner) for claim, owner in runs if owner and self.model.runs(claim.key, owner)]

    def start_attempts(self, life: Node, limit: int) -> list[Claim]:
        """Claims, which a retry under the same token finds again."""
        waiting, token = self.model.assigned_to(owner_of(life)), uuid4()
        claims = life.store.claim(token, limit)
        assert len(claims) == min(limit, len(waiting))
        for claim in claims:
            row = waiting.pop(claim.job)
            row.state, row.attempt, row.token = State.RUNNING, row.attempt + 1, token
            assert (claim.attempt, claim.bound) == (row.attempt, row.bound)
        assert sorted(claim.key for claim in life.store.claimed(token)) == sorted(c.key for c in claims)
        self.told += claims
        return claims

    def take_term(self) -> TermHeld:
        """The next term, in office from now on."""
        self.model.office = self.stage.office()
        return self.office()

    def begin_node(self) -> Node:
        """A node that never was before."""
        node = self.stage.node(next(self.ids))
        self.model.nodes[node.id] = NodeRow(node.incarnation, node.counter)
        self.begun.append(node)
        return node

    def next_life(self, life: Node, row: NodeRow) -> Node:
        """The node's next incarnation; what its past held moves on."""
        node = self.stage.node(life.id, row.incarnation)
        assert (node.incarnation, node.counter) == (row.incarnation + 1, row.counter + 1)
        self.model.nodes[life.id] = NodeRow(node.incarnation, node.counter)
        assert node.moved == self.model.give_back(life.id)
        self.begun.append(node)
        return node

    def coordinator(self, office: TermHeld) -> AssignmentStore:
        """Whoever holds this office, or thinks so."""
        return AssignmentStore(self.stage.database, office)

    def fenced(self, office: TermHeld) -> AbstractContextManager[object]:
        """What is written within is written in office, or raises."""
        return nullcontext() if office == self.model.office else pytest.raises(Fenced)


def owner_of(life: Node) -> Owner:
    """The name its jobs carry."""
    return life.id, life.incarnation
