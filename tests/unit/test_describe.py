"""What is kept of an attempt's failure: its words, its details, and a traceback where that helps."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from mutirao.agent.execution import describe, execute
from mutirao.agent.inbox import Work
from mutirao.context import Alone
from mutirao.contract import Discard, ResultRefused, Retry, handler
from mutirao.registry import Registry


def _described(error: BaseException) -> dict[str, Any]:
    try:
        raise error
    except type(error) as raised:
        found: dict[str, Any] = json.loads(describe(raised))
        return found


def test_details_are_kept_as_they_are_or_as_text() -> None:
    details = {"n": 5, "yes": True, "x": 0.5, "big": 10**30, "nan": float("nan"), "text": "a\0", "list": [1]}
    found = _described(Retry("busy", 1.0, details=details))
    assert found == {
        "type": "Retry", "message": "busy", "n": 5, "yes": True, "x": 0.5, "big": str(10**30), "nan": "nan",
        "text": "a\ufffd", "list": "[1]",
    }  # fmt: skip


def test_details_are_bounded_and_hide_nothing() -> None:
    found = _described(Discard("no", details={"type": "other", "x": "y" * 100_000}))
    assert (found["type"], found["message"]) == ("Discard", "no")
    assert len(json.dumps(found)) < 10_000
    assert len(_described(Discard("no", details={str(n): n for n in range(1000)}))) < 50


def test_a_failure_of_the_handlers_own_making_is_described_all_the_same() -> None:
    class Stop(Discard):
        def __init__(self, code: int) -> None:
            self.code = code

    class Unspeakable:
        def __str__(self) -> str:
            raise RuntimeError

    assert _described(Stop(3)) == {"type": Stop.__qualname__, "message": "3"}
    assert _described(Discard("no", details={"x": Unspeakable()})) == {"type": "Discard", "message": "no"}
    assert _described(Discard("no", details=5)) == {"type": "Discard", "message": "no"}  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [Discard("no"), Retry("later"), ResultRefused("none")])
def test_what_speaks_for_itself_needs_no_traceback(error: Exception) -> None:
    assert _described(error) == {"type": type(error).__name__, "message": str(error)}


def test_a_cause_is_worth_one() -> None:
    caused = Retry("later")
    caused.__cause__ = OSError("the reason")
    assert "the reason" in _described(caused)["traceback"]
    assert "traceback" in _described(RuntimeError("x"))


def test_a_traceback_begins_in_the_handler() -> None:
    def breaks(payload: str) -> str:
        return {"a": payload}["b"]

    registry = Registry()
    registry.add(handler("breaks")(breaks), "here")
    work = Work(uuid4().bytes, 1, "breaks", None, 1.0)
    report = execute(registry, 1, work, b'"x"', 0.0, Alone())
    assert report.error is not None
    lines = json.loads(report.error)["traceback"].splitlines()
    assert lines[1].startswith(f'  File "{__file__}"')
    assert lines[-1] == "KeyError: 'b'"
