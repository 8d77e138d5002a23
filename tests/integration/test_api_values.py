"""A value comes back as it went in, wherever it is looked at (FAILURES: Input)."""

from __future__ import annotations

import pytest

from mutirao.domain.job import Outcome
from tests.support.api import JSON
from tests.support.door import Door

EXACT = [
    "9007199254740993",
    "-9007199254740993",
    "123456789012345678901234567890",
    "3.141592653589793238462643383279",
    "1.50",
    '"\\\\u0000"',
    '"\N{GRINNING FACE}"',
    "null",
    '{"a": [true, {"b": 1.10}]}',
]


@pytest.mark.parametrize("text", EXACT)
def test_a_payload_and_a_result_come_back_as_they_went_in(door: Door, text: str) -> None:
    body = f'{{"handler": "anything", "payload": {text}}}'.encode()
    job = door.http.post("/api/v1/jobs", content=body, headers=JSON).json()["id"]
    attempt = door.node.start(job)
    door.node.end(job, attempt, Outcome.SUCCEEDED, result=text)
    answer = door.http.get(f"/api/v1/jobs/{job}").text
    assert f'"payload":{text}' in answer
    assert f'"result":{text}' in answer
