"""Handlers of JSON text: what fits their schemas goes through unchanged, the rest is refused by its field."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from mutirao.binding import SchemaBound, bind
from mutirao.contract import Context, PayloadRefused, ResultRefused
from mutirao.errors import ContractError
from mutirao.handlers.executable import Executable

CONTEXT = Context(UUID(int=7), 1)
COUNTS = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def _bound(payload: dict[str, Any] | None = None, result: dict[str, Any] | None = None) -> SchemaBound:
    bound = bind(Executable("/bin/cat", "cat", "Gives back.", payload or {}, result or {}))
    assert isinstance(bound, SchemaBound)
    return bound


@pytest.mark.parametrize(
    "raw", [b'{"n":5.0,"m":1.10}', b' {"n": 9007199254740993}', '{"n":1,"é":"é"}'.encode()]
)
def test_what_fits_goes_through_unchanged(raw: bytes) -> None:
    bound = _bound(COUNTS, COUNTS)
    assert bound.parse(raw) == raw
    assert bound.dump(raw) == raw
    assert bound.call(raw, CONTEXT) == raw.strip()


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b"{}", "n"),
        (b'{"n":"1"}', "n"),
        (b"[]", ""),
        (b"{", ""),
        (b"1" * 5000, ""),
        (b"[" * 100_000 + b"]" * 100_000, ""),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_by_its_field(raw: bytes, field: str) -> None:
    with pytest.raises(PayloadRefused) as refused:
        _bound(COUNTS).parse(raw)
    assert refused.value.field == field


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"hello", b"{", b'{"n":1}x', b"NaN", b"1e400", b'"\xff"', b'"\\ud800"', b'"\\u0000"',
        b'{"\\u0000":1}', b"[" * 100_000 + b"]" * 100_000, b'"' + b"x" * (1 << 20) + b'"',
    ],
)  # fmt: skip
def test_a_result_that_cannot_be_stored_is_refused(raw: bytes) -> None:
    with pytest.raises(ResultRefused):
        _bound().dump(raw)


def test_a_result_that_does_not_fit_is_refused_by_its_field() -> None:
    with pytest.raises(ResultRefused, match=r"result\.n: "):
        _bound(result=COUNTS).dump(b'{"n":"x"}')


def test_its_schemas_are_its_contract() -> None:
    contract = _bound(COUNTS, {"type": "null"}).contract()
    assert (contract.payload_schema, contract.result_schema) == (COUNTS, {"type": "null"})
    assert contract.description == "Gives back."
    assert contract.fingerprint != _bound(COUNTS).contract().fingerprint


@pytest.mark.parametrize(
    "schema", [{"type": "objekt"}, {"$ref": "#/$defs/none"}, {"$ref": "file:///etc/passwd"}]
)
def test_what_is_no_schema_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ContractError, match=r"`payload` of handler .* is no JSON Schema"):
        _bound(schema)
