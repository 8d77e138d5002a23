"""The loop that adopts jobs nobody serves: none of them keeps others waiting (I7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from mutirao.agent import adoption
from mutirao.agent.adoption import Adopting
from mutirao.agent.beating import Member
from mutirao.agent.fitting import Fitting
from mutirao.agent.judge import Judge
from mutirao.agent.publication import published
from mutirao.registry import HandlerConfig, load_registry
from mutirao.store.assignment import AssignmentStore
from mutirao.store.contracts import ContractStore
from mutirao.store.insights import Insights
from tests.support import judged_handlers
from tests.support.stage import Node, Stage
from tests.support.waiting import until

CONFIG = HandlerConfig(modules=(judged_handlers.__file__,))


@pytest.fixture
def stage(postgres_dsn: str) -> Iterator[Stage]:
    with Stage(postgres_dsn) as stage:
        yield stage


class Scene:
    """A node that has the handler `count`, and former versions of it that nobody serves."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        contracts = published(load_registry(CONFIG).contracts())
        (self.version,) = (one for one in contracts if one.handler == "count")
        self.formers = [self._leave(name) for name in ("f1", "f2")]
        self.insights = Insights(stage.database)

    def _leave(self, fingerprint: str) -> int:
        node = self.stage.node(serves=replace(self.version, fingerprint=fingerprint))
        self.stage.nodes.leave(node.id, node.incarnation)
        return self.stage.contract("count")

    def job(self, number: object, contract: int) -> UUID:
        """A job under that contract."""
        return self.stage.submit(1, handler="count", payload=str(number), contract=contract)[0]

    def adopting(self, node: Node) -> Adopting:
        """The node's loop."""
        store = ContractStore(self.stage.database, node.id)
        member = Member(node.id, node.incarnation, node.counter, 0.0)
        return Adopting(
            member, store, Fitting(Judge(CONFIG, Path()), store, [self.version]), on_change=lambda: None
        )

    def under(self, job: UUID, contract: int) -> bool:
        """Whether the job is."""
        view = self.insights.job(job)
        return view is not None and view.contract == contract


def test_jobs_that_fit_nowhere_keep_none_of_another_contract_waiting(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adoption, "EVERY", 0.02)
    # As after a look at a million of them.
    monkeypatch.setattr(adoption, "SHARE", 1e9)
    scene = Scene(stage)
    first, second = scene.formers
    node = stage.node(serves=scene.version)
    mine = stage.contract("count")
    coordinator = stage.coordinator()
    misfit, fit = scene.job('"many"', first), scene.job(1, first)
    coordinator.count_states()
    adopting = scene.adopting(node)
    adopting.start()
    try:
        until(lambda: scene.under(fit, mine), 5.0, "the first look")
        other = scene.job(2, second)
        coordinator.count_states()
        until(lambda: scene.under(other, mine), 5.0, "the other contract's")
    finally:
        adopting.stop()
    assert scene.under(misfit, first)


def test_after_a_long_look_there_is_another_within_reason(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adoption, "EVERY", 0.02)
    monkeypatch.setattr(adoption, "SHARE", 1e9)
    monkeypatch.setattr(adoption, "AT_LEAST_EVERY", 0.02)
    scene = Scene(stage)
    node = stage.node(serves=scene.version)
    mine = stage.contract("count")
    coordinator: AssignmentStore = stage.coordinator()
    misfit, fit = scene.job('"many"', scene.formers[0]), scene.job(1, scene.formers[0])
    coordinator.count_states()
    adopting = scene.adopting(node)
    adopting.start()
    try:
        until(lambda: scene.under(fit, mine), 5.0, "the first look")
        later = scene.job(2, scene.formers[0])
        until(lambda: scene.under(later, mine), 5.0, "a later one")
    finally:
        adopting.stop()
    assert scene.under(misfit, scene.formers[0])
