"""Strict JSON: every refusal names its field, everything else passes unchanged (I9, FAILURES: Input)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutirao.errors import InvalidInput
from mutirao.web import strict_json

LONG = "9" * 5000
REFUSED = {
    "nul in a value": (b'{"payload": {"a": ["x\\u0000y"]}}', "payload.a.0", "NUL"),
    "nul in a key": (b'{"payload": {"a\\u0000": 1}}', "payload", "NUL"),
    "raw nul": (b'{"payload": "a\x00"}', "", "not JSON"),
    "lone high surrogate": (b'{"payload": "\\ud800"}', "payload", "surrogate"),
    "lone low surrogate": (b'{"payload": {"k": "\\uDC00x"}}', "payload.k", "surrogate"),
    "surrogate in a key": (b'{"payload": {"\\udfff": 1}}', "payload", "surrogate"),
    "nan": (b'{"payload": {"x": NaN}}', "payload.x", "NaN"),
    "infinity": (b'{"payload": [1, Infinity]}', "payload.1", "Infinity"),
    "minus infinity": (b'{"payload": [-Infinity]}', "payload.0", "-Infinity"),
    "overflow": (b'{"payload": {"x": 1e400}}', "payload.x", "too large"),
    "negative overflow": (b'{"payload": {"x": -1e400}}', "payload.x", "too large"),
    "underflow": (b'{"payload": {"x": 1e-400}}', "payload.x", "too close to zero"),
    "huge integer": (b'{"payload": {"x": %s}}' % LONG.encode(), "payload.x", "digits"),
    "duplicate key": (b'{"payload": {"a": {"b": 1, "b": 1}}}', "payload.a", '"b" occurs twice'),
    "duplicate escaped key": (b'{"payload": {"b": 1, "\\u0062": 1}}', "payload", '"b" occurs twice'),
    "duplicate at the top": (b'{"handler": "a", "handler": "b"}', "", '"handler" occurs twice'),
    "duplicate in a batch": (b'{"jobs": [{}, {"payload": {"a": 1, "a": 2}}]}', "jobs.1.payload", "twice"),
    "unclosed": (b"[" * 200_000, "", "nested"),
    "deep": (b"[" * 200_000 + b"]" * 200_000, "", "nested"),
    "invalid utf-8": (b'{"payload": "\xff"}', "", "UTF-8"),
    "utf-8 encoded surrogate": (b'{"payload": "\xed\xa0\x80"}', "", "UTF-8"),
    "byte order mark": (b"\xef\xbb\xbf{}", "", "not JSON"),
    "empty": (b"", "", "not JSON"),
    "two documents": (b"{} {}", "", "not JSON"),
    "trailing comma": (b'{"a": 1,}', "", "not JSON"),
    "comment": (b'{"a": 1} // x', "", "not JSON"),
    "single quotes": (b"{'a': 1}", "", "not JSON"),
    "leading zero": (b"[01]", "", "not JSON"),
    "control character": (b'["a\nb"]', "", "not JSON"),
}


@pytest.mark.parametrize(("body", "field", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_kept_is_refused_and_named(body: bytes, field: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        strict_json.parse(body)
    assert refusal.value.field == field
    assert message in refusal.value.message


ACCEPTED = {
    "escaped backslash before u0000": (b'"\\\\u0000"', "\\u0000"),
    "escaped backslash before ud800": (b'"\\\\ud800"', "\\ud800"),
    "emoji": ('"\N{GRINNING FACE}"'.encode(), "\N{GRINNING FACE}"),
    "surrogate pair": (b'"\\ud83d\\ude00"', "\N{GRINNING FACE}"),
    "beyond double precision": (b"9007199254740993", 9007199254740993),
    "300 digits": (b"9" * 300, int("9" * 300)),
    "digits in a string": (b'"%s"' % LONG.encode(), LONG),
    "zero in many ways": (b"[0, 0.0, -0.0, 0e5, 0.00E-999]", [0, 0.0, -0.0, 0.0, 0.0]),
    "largest double": (b"1.7976931348623157e308", 1.7976931348623157e308),
    "same key at two depths": (b'{"a": {"a": 1}}', {"a": {"a": 1}}),
}


@pytest.mark.parametrize(("body", "value"), ACCEPTED.values(), ids=ACCEPTED)
def test_what_can_be_kept_is_unchanged(body: bytes, value: object) -> None:
    assert strict_json.parse(body) == value


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def test_depth_is_bounded_exactly() -> None:
    fits, over = nested(strict_json.MAX_DEPTH), nested(strict_json.MAX_DEPTH + 1)
    strict_json.check_depth(fits, strict_json.parse(fits), "payload")
    with pytest.raises(InvalidInput) as refusal:
        strict_json.check_depth(over, strict_json.parse(over), "jobs.3.payload")
    assert refusal.value.field == "jobs.3.payload"


def test_many_flat_values_are_not_deep() -> None:
    body = b"[" + b",".join([b"{}"] * 1000) + b"]"
    strict_json.check_depth(body, strict_json.parse(body), "payload")


TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
NUMBERS = st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)


@given(VALUES, st.booleans())
def test_any_clean_document_round_trips(value: object, ascii_only: bool) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert strict_json.parse(body) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(body: bytes) -> None:
    try:
        value = strict_json.parse(body)
    except InvalidInput:
        return
    json.dumps(value, allow_nan=False).encode("ascii")
