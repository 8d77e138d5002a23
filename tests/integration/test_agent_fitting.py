"""What waits is tried against a node's own handlers, within bounds, whatever their validators do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mutirao.agent import fitting, judge
from mutirao.agent.fitting import Fitting
from mutirao.agent.judge import Judge
from mutirao.agent.publication import published
from mutirao.errors import Unavailable
from mutirao.registry import HandlerConfig, load_registry
from mutirao.store.contracts import ContractStore
from tests.support import judged_handlers
from tests.support.stage import Stage


@pytest.fixture
def stage(postgres_dsn: str) -> Iterator[Stage]:
    with Stage(postgres_dsn) as stage:
        yield stage


@pytest.fixture
def tried(stage: Stage, tmp_path: Path) -> Iterator[Fitting]:
    config = HandlerConfig(modules=(judged_handlers.__file__,))
    contracts = [one for one in load_registry(config).contracts() if one.handler in {"picky", "easy"}]
    store = ContractStore(stage.database, stage.node().id)
    fitting = Fitting(Judge(config, tmp_path), store, published(contracts))
    yield fitting
    fitting.rest()


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


@pytest.mark.parametrize(
    ("word", "told"),
    [("endless", "did not end within 0.5 s"), ("exit", "ended the process it ran in")],
)
def test_a_validator_that_does_not_come_back_holds_up_nobody(
    stage: Stage, tried: Fitting, monkeypatch: pytest.MonkeyPatch, word: str, told: str
) -> None:
    monkeypatch.setattr(judge, "PATIENCE", 0.5)
    submit(stage, word)
    submit(stage, "fine", "easy")
    refusals = tried.refusals(["picky", "easy"])
    assert told in refusals["picky"] and "easy" not in refusals
    trying = [child for child in psutil.Process().children() if "judge_process" in " ".join(child.cmdline())]
    assert not trying, "it is gone once all are tried"


def test_files_that_have_changed_try_nothing(stage: Stage, tmp_path: Path) -> None:
    """Another version would answer for the contract that is published."""
    module = tmp_path / "judged.py"
    module.write_text(Path(judged_handlers.__file__).read_text())
    config = HandlerConfig(modules=(str(module),)).sealed()
    asked = Judge(config, tmp_path)
    assert asked.fault("count", b"1") is None and asked.fault("count", b'"1"') is not None
    asked.rest()
    module.write_text(module.read_text().replace("payload: int", "payload: str"))
    with pytest.raises(Unavailable, match="cannot be loaded"):
        asked.fault("count", b"1")
