"""What waits is tried against a node's own handlers, within bounds, whatever their validators do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import field_validator

from mutirao.agent import fitting
from mutirao.agent.fitting import Fitting
from mutirao.agent.publication import published
from mutirao.contract import Payload, handler
from mutirao.registry import Registry
from mutirao.store.contracts import ContractStore
from tests.support.stage import Stage


class Picky(Payload):
    """Takes few words."""

    word: str

    @field_validator("word")
    @classmethod
    def judge(cls, word: str) -> str:
        """Raises what such code may raise."""
        if word == "nul":
            raise ValueError("a\0b" * 1000)
        if word == "crash":
            raise RuntimeError("a\0b\ud800c")
        return word


@handler("picky")
def picky(payload: Picky) -> None:
    """Takes few words."""


@handler("easy")
def easy(payload: dict[str, str]) -> None:
    """Takes any."""


@pytest.fixture
def stage(postgres_dsn: str) -> Iterator[Stage]:
    with Stage(postgres_dsn) as stage:
        yield stage


@pytest.fixture
def tried(stage: Stage) -> Fitting:
    registry = Registry()
    for one in (picky, easy):
        registry.add(one, "here")
    store = ContractStore(stage.database, stage.node().id)
    return Fitting(registry, store, published(registry.contracts()))


def submit(stage: Stage, word: str, name: str = "picky", count: int = 1) -> str:
    return str(stage.submit(count, handler=name, payload=f'{{"word": "{word}"}}')[0])


def test_one_misfit_refuses_its_own_handler_alone(stage: Stage, tried: Fitting) -> None:
    submit(stage, "fine", count=150)
    submit(stage, "anything", "easy")
    submit(stage, "anything", "unknown")
    (job,) = stage.submit(1, handler="picky", payload="[]")
    refusals = {one.handler: one.refusal for one in tried.contracts()}
    assert refusals["easy"] is None
    told = refusals["picky"]
    assert told is not None and told.startswith(f"job {job}: payload: ")


@pytest.mark.parametrize(
    ("word", "told"),
    [("nul", "Value error, a\ufffdb"), ("crash", "its validation raised RuntimeError: a\ufffdb?c")],
)
def test_whatever_a_validator_raises_is_a_reason_that_can_be_stored(
    stage: Stage, tried: Fitting, word: str, told: str
) -> None:
    job = submit(stage, word)
    refusal = tried.refusals(["picky"])["picky"]
    assert refusal.startswith(f"job {job}: payload") and told in refusal and len(refusal) <= 1000
    node = stage.node()
    ContractStore(stage.database, node.id).rule(node.incarnation, "echo", refusal)
    assert stage.rows("SELECT refusal FROM node_contracts WHERE refusal IS NOT NULL")[0].refusal == refusal


def test_no_more_than_so_many_are_tried(
    stage: Stage, tried: Fitting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "MOST_JOBS", 120)
    submit(stage, "fine", count=120)
    submit(stage, "crash")
    assert tried.refusals(["picky"]) == {}


def test_what_equal_fingerprints_accepted_is_not_tried(stage: Stage, tried: Fitting) -> None:
    node = stage.node(serves=tried.contracts()[1])
    stage.nodes.leave(node.id, node.incarnation)
    crash = {"handler": "picky", "payload": '{"word": "crash"}'}
    stage.submit(1, **crash, contract=stage.contract("picky"))
    assert tried.refusals(["picky"]) == {}
    stage.submit(1, **crash)
    assert "picky" in tried.refusals(["picky"])
    stage.node(node.id, node.incarnation + 1, tried.contracts()[1])
    assert "picky" in tried.refusals(["picky"])


def test_what_a_live_node_serves_is_not_judged_again(stage: Stage, tried: Fitting) -> None:
    stage.node(serves=tried.contracts()[1])
    submit(stage, "crash")
    assert tried.refusals(["picky"]) == {}
