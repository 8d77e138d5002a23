"""Bad input stops at the door, by name, and nothing is stored (I9; FAILURES: Input)."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from tests.support.api import ECHO, fields, refused, submit_text
from tests.support.door import Door


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"priority": 10}, "priority"),
        ({"priority": -1}, "priority"),
        ({"priority": True}, "priority"),
        ({"priority": "5"}, "priority"),
        ({"priority": 5.5}, "priority"),
        ({"priority": 1e300}, "priority"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": 101}, "max_retries"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": 1e12}, "timeout"),
        ({"backoff": {"base": -1}}, "backoff.base"),
        ({"backoff": {"bass": 1}}, "backoff.bass"),
        ({"backoff": 3}, "backoff"),
        ({"prioritty": 1}, "prioritty"),
        ({"handler": 5}, "handler"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"idempotency_key": "k" * 256}, "idempotency_key"),
        ({"idempotency_key": "k" * 8192}, "idempotency_key"),
        ({"idempotency_key": "a\nb"}, "idempotency_key"),
        ({"run_at": "2026-01-31T08:00:00"}, "run_at"),
        ({"run_at": "10000-01-01T00:00:00Z"}, "run_at"),
        ({"run_at": "9999-12-31T23:59:59Z"}, "run_at"),
        ({"run_at": "0001-01-01T00:00:00+01:00"}, "run_at"),
        ({"run_at": "2026-02-30T00:00:00Z"}, "run_at"),
        ({"run_at": "tomorrow"}, "run_at"),
        ({"run_at": 1780000000}, "run_at"),
    ],
)
def test_a_wrong_field_is_named(door: Door, change: dict[str, Any], field: str) -> None:
    assert fields(refused(door, {**ECHO, **change})) == {field}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a/b",
        "a+b",
        "a%2Fb",
        "..",
        "-a",
        "a b",
        "a\tb",
        "\N{GRINNING FACE}",
        "x" * 256,
        "x" * 101,
        "a\n",
        "é",
    ],
)
@pytest.mark.parametrize("field", ["queue", "handler"])
def test_odd_names_stop_at_the_door(door: Door, field: str, name: str) -> None:
    assert field in fields(refused(door, {**ECHO, field: name}))


def test_several_wrong_fields_are_all_named(door: Door) -> None:
    problem = refused(door, {"handler": "echo", "priority": 11, "timeout": 0, "que": "x"})
    assert fields(problem) == {"priority", "timeout", "que"}
    assert "`queue`" in problem["hint"]


def test_an_unknown_handler_gets_a_suggestion(door: Door) -> None:
    problem = refused(door, {"handler": "ecko", "payload": {}})
    assert fields(problem) == {"handler"}
    assert "did you mean `echo`?" in problem["hint"]
    assert "particular" in problem["hint"]


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({}, {"payload.seconds"}),
        ({"seconds": "5"}, {"payload.seconds"}),
        ({"seconds": -1}, {"payload.seconds"}),
        ({"seconds": 1, "extra": 1}, {"payload.extra"}),
        ({"second": 1}, {"payload.seconds", "payload.second"}),
        ("hello", {"payload"}),
        (None, {"payload"}),
    ],
)
def test_a_payload_is_checked_against_the_contract(door: Door, payload: object, expected: set[str]) -> None:
    assert fields(refused(door, {"handler": "sleep", "payload": payload})) == expected


def test_a_refusal_is_no_longer_than_it_need_be(door: Door) -> None:
    names = {f"{number}{'x' * 5000}": 1 for number in range(200)}
    for body in ({**ECHO, **names}, {**ECHO, "payload": {"message": "x", **names}}):
        problem = refused(door, body)
        assert 1 <= len(problem["errors"]) <= 100
        assert max(len(name) for name in fields(problem)) <= 301
        assert len(json.dumps(problem)) < 50_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"priority": "5"}, "must be an integer"),
        ({"priority": 10}, "must be less than or equal to 9"),
        ({"idempotency_key": "k" * 256}, "must have at most 255 characters"),
        ({"idempotency_key": ""}, "must have at least 1 character"),
        ({"queue": "a/b"}, "must be 1 to 100 letters, digits, dots, underscores or hyphens, "
         "and begin with a letter or digit"),
        ({"backoff": []}, "must be an object"),
        ({"run_at": "2026-01-31T08:00:00"}, "needs an offset: end it with Z or +01:00"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_plain_words(door: Door, change: dict[str, Any], message: str) -> None:
    assert [error["message"] for error in refused(door, {**ECHO, **change})["errors"]] == [message]


def anything(payload: bytes) -> bytes:
    return b'{"handler": "anything", "payload": ' + payload + b"}"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", ""),
        (b"{", ""),
        (b"[]", ""),
        (b'"echo"', ""),
        (b"null", ""),
        (b"0", ""),
        (anything(b"1") + b"x", ""),
        (b"\xef\xbb\xbf" + anything(b"1"), ""),
        (anything(b'"\xff"'), ""),
        (anything(b'"\xed\xa0\x80"'), ""),
        (anything(b"01"), ""),
        (anything(b"1,"), ""),
        (anything(b"'x'"), ""),
        (b'{"handler": "echo", "handler": "echo", "payload": {"message": "x"}}', ""),
        (anything(b'{"a": {"message": "x", "message": "x"}}'), "payload.a"),
        (anything(b'{"a": "\\u0000"}'), "payload.a"),
        (anything(b'{"a": {"b\\u0000": 1}}'), "payload.a"),
        (anything(b'["\\ud800"]'), "payload.0"),
        (anything(b'{"a": {"\\udfff": 1}}'), "payload.a"),
        (anything(b'{"a": "\\udc00\\ud800"}'), "payload.a"),
        (anything(b"NaN"), "payload"),
        (anything(b'{"a": -Infinity}'), "payload.a"),
        (anything(b"[1, 1e400]"), "payload.1"),
        (anything(b"1e-400"), "payload"),
        (anything(b"9" * 5000), "payload"),
        (anything(b"-" + b"9" * 301), "payload"),
        (anything(b"0." + b"3" * 5000), "payload"),
        (anything(b"[" * 101 + b"]" * 101), "payload"),
        (anything(b'{"a":' * 101 + b"1" + b"}" * 101), "payload"),
        (anything(b"[" * 200_000 + b"]" * 200_000), ""),
        (anything(b"[" * 200_000), ""),
        (b'{"handler": "anything", "priority": NaN}', "priority"),
        (b'{"handler": "any\\u0000thing"}', "handler"),
        (b'{"handler": "anything", "idempotency_key": "\\ud800"}', "idempotency_key"),
    ],
    ids=lambda value: repr(value[:60]),
)
def test_what_is_not_strict_json_is_refused(door: Door, body: bytes, field: str) -> None:
    problem = refused(door, body)
    assert fields(problem) == {field}
    assert problem["errors"][0]["message"]


@pytest.mark.parametrize(
    "payload", [b'"\\ud83d\\ude00"', '"\N{GRINNING FACE}"'.encode(), b'"\\\\u0000"', b"9" * 300]
)
def test_what_only_looks_wrong_is_accepted(door: Door, payload: bytes) -> None:
    job = submit_text(door, payload.decode())
    assert door.job(job)["payload"] == json.loads(payload)


def test_one_wrong_job_refuses_the_whole_batch(door: Door) -> None:
    wrong = {"handler": "sleep", "payload": {"seconds": "5"}}
    assert fields(refused(door, {"jobs": [ECHO, ECHO, ECHO, wrong]})) == {"jobs.3.payload.seconds"}
    assert fields(refused(door, {"jobs": [ECHO, {**ECHO, "priority": 99}]})) == {"jobs.1.priority"}
    assert fields(refused(door, {"jobs": [ECHO, {"handler": "ecko"}]})) == {"jobs.1.handler"}
    assert fields(refused(door, {"jobs": []})) == {"jobs"}
    keyed = {**ECHO, "idempotency_key": str(uuid4())}
    assert fields(refused(door, {"jobs": [keyed, ECHO, keyed]})) == {"jobs.2.idempotency_key"}
    deep = {"handler": "anything", "payload": json.loads("[" * 101 + "]" * 101)}
    assert fields(refused(door, {"jobs": [ECHO, deep]})) == {"jobs.1.payload"}
