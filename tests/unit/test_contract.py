"""Contracts: types from annotations, strict in and out, fingerprints that follow what is published."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from mutirao.binding import Bound, contract_of
from mutirao.contract import (
    Context,
    Payload,
    PayloadRefused,
    ResultRefused,
    Retry,
    handler,
)
from mutirao.domain.job import Backoff
from mutirao.errors import ContractError

CONTEXT = Context(UUID(int=7), 3)


class Inner(Payload):
    count: int


class Order(Payload):
    items: list[Inner]
    note: str = ""


@handler("order", timeout=12.0)
def order(payload: Order, context: Context) -> int:
    """Counts what was ordered."""
    return sum(item.count for item in payload.items) * context.attempt


@handler("anything")
def anything(payload: Any) -> JsonValue:
    result: JsonValue = payload
    return result


def test_runs_the_function_with_payload_and_context() -> None:
    bound = Bound(order)
    payload = bound.parse(b'{"items": [{"count": 2}, {"count": 3}]}')
    assert order.run(payload, CONTEXT) == 15


def test_a_context_is_optional() -> None:
    assert anything.run(5, CONTEXT) == 5


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b'{"items": [{"count": 2}, {"count": "3"}]}', "items.1.count"),
        (b'{"items": [{"count": 2.5}]}', "items.0.count"),
        (b'{"items": [], "else": 1}', "else"),
        (b"{}", "items"),
        (b"[]", ""),
        (b"{", ""),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_by_its_field(raw: bytes, field: str) -> None:
    with pytest.raises(PayloadRefused) as refused:
        Bound(order).parse(raw)
    assert refused.value.field == field


def test_what_is_published_forbids_what_the_runner_would_refuse() -> None:
    schema = contract_of(order).payload_schema
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["items"]
    assert contract_of(order).description == "Counts what was ordered."


class Wholes(Payload):
    number: int
    either: int | str = 0
    many: list[int] | None = None
    by_name: dict[str, int] | None = None
    other: Any = None


@handler("wholes")
def wholes(payload: Wholes) -> int:
    return payload.number


@pytest.mark.parametrize(
    ("written", "number"),
    [("5.0", 5), ("1e2", 100), ("-0.0", 0), ("9007199254740993.0", 9007199254740993), ("1E+40", 10**40)],
)
def test_an_integer_may_be_written_as_json_schema_allows(written: str, number: int) -> None:
    nested = f'"many": [1, {written}], "by_name": {{"a.b": {written}}}'
    raw = f' {{"number": {written}, "either": {written}, {nested}}}'
    assert contract_of(wholes).payload_schema["properties"]["number"]["type"] == "integer"
    assert Bound(wholes).parse(raw.encode()) == Wholes(
        number=number, either=number, many=[1, number], by_name={"a.b": number}
    )


def test_nothing_else_is_made_an_integer() -> None:
    assert repr(Bound(wholes).parse(b'{"number": 5.0, "other": [5.0, 1e2]}').other) == "[5.0, 100.0]"
    for wrong in (b"5.5", b'"5"', b'"5.0"', b"true", b"1e-400000", b"1e400000000", b"[5.0]"):
        with pytest.raises(PayloadRefused) as refused:
            Bound(wholes).parse(b'{"number": ' + wrong + b"}")
        assert refused.value.field == "number"


@given(st.integers(min_value=-(10**4000), max_value=10**4000))
def test_whole_numbers_pass_unchanged(number: int) -> None:
    bound = Bound(anything)
    raw = json.dumps({"n": number}).encode()
    assert json.loads(bound.call(bound.parse(raw), CONTEXT)) == {"n": number}


@given(st.text())
def test_text_passes_unchanged_or_is_refused_for_a_nul(text: str) -> None:
    bound = Bound(anything)
    if "\0" in text:
        with pytest.raises(ResultRefused):
            bound.dump(text)
    else:
        assert json.loads(bound.dump(text)) == text


def test_an_escaped_backslash_before_u0000_is_no_nul() -> None:
    assert json.loads(Bound(anything).dump("\\u0000")) == "\\u0000"


def test_a_result_of_another_type_is_refused() -> None:
    with pytest.raises(ResultRefused, match="declared type"):
        Bound(order).dump("many")
    with pytest.raises(ResultRefused):
        Bound(anything).dump("\ud800")


def test_fingerprints_follow_schema_and_defaults_alone() -> None:
    def build(timeout: float, kind: Any) -> str:
        def function(payload: Any) -> int:
            return 1

        function.__annotations__["payload"] = kind
        return contract_of(handler("x", timeout=timeout)(function)).fingerprint

    assert build(1.0, Order) == build(1.0, Order)
    assert len({build(1.0, Order), build(2.0, Order), build(1.0, Inner)}) == 3


def test_plain_dataclasses_serve_as_types() -> None:
    @dataclass
    class Point:
        x: int

    class Mover:
        """Moves a point."""

        name = "move"
        payload_type = Point
        result_type = Point
        defaults = order.defaults

        def run(self, payload: Point, context: Context) -> Point:
            return Point(payload.x + 1)

    bound = Bound(Mover())
    assert bound.call(bound.parse(b'{"x": 1}'), CONTEXT) == b'{"x":2}'
    assert bound.contract().description == "Moves a point."


@pytest.mark.parametrize("kind", [Callable[[], int], type("Opaque", (), {})])
def test_types_without_a_schema_are_refused(kind: Any) -> None:
    def function(payload: Any) -> int:
        return 1

    function.__annotations__["payload"] = kind
    with pytest.raises(ContractError, match="without a"):
        contract_of(handler("x")(function))


@pytest.mark.parametrize("name", ["", "a/b", "ü", "a" * 101, "1a", "a b"])
def test_names_that_would_break_a_path_are_refused(name: str) -> None:
    def function(payload: int) -> int:
        return payload

    with pytest.raises(ContractError, match="name"):
        contract_of(handler(name)(function))


def test_annotations_are_required() -> None:
    def bare(payload) -> int:  # type: ignore[no-untyped-def]
        return 1

    def silent(payload: int):  # type: ignore[no-untyped-def]
        return 1

    for function in (bare, silent):
        with pytest.raises(ContractError, match="annotation"):
            handler("x")(function)


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout": 0.0},
        {"timeout": float("inf")},
        {"max_retries": -1},
        {"priority": 10},
        {"cancel_grace": -1.0},
        {"cancel_grace": 61.0},
        {"cancel_grace": float("nan")},
        {"timeout": 1e9},
        {"max_retries": 101},
        {"queue": "a/b"},
        {"queue": ""},
        {"backoff": Backoff(-1.0, 1.0)},
        {"backoff": Backoff(1.0, float("inf"))},
    ],
)
def test_defaults_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ContractError, match=next(iter(wrong))):
        handler("x", **wrong)


def test_zero_is_a_value() -> None:
    defaults = contract_of(
        handler("x", max_retries=0, priority=0, backoff=Backoff(0, 0))(order.function)
    ).defaults
    assert (defaults["max_retries"], defaults["priority"], defaults["backoff"]) == (
        0,
        0,
        {"base": 0, "cap": 0},
    )


def test_the_token_is_job_and_attempt() -> None:
    assert CONTEXT.token == (UUID(int=7), 3)
    assert CONTEXT.idempotency_key == str(UUID(int=7))
    assert Context(UUID(int=7), 1, deadline=0.0).remaining() == 0.0


def test_a_retry_cannot_be_asked_for_in_the_past() -> None:
    with pytest.raises(ValueError, match="after"):
        Retry("later", after=-1.0)
