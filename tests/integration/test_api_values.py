"""A value comes back as it went in, wherever it is looked at (FAILURES: Input)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mutirao.domain.job import Outcome
from tests.support.agents import site
from tests.support.api import submit_text
from tests.support.door import HANDLERS, Door, open_door
from tests.support.waiting import until

EXACT = [
    "9007199254740993",
    "-9007199254740993",
    "123456789012345678901234567890",
    "3.141592653589793238462643383279",
    "1.50",
    '"\\\\u0000"',
    '"\N{GRINNING FACE}"',
    '{"a": [true, {"b": 1.10}]}',
]
NOTHING = ["0", "0.0", "false", "null", '""', "[]", "{}", '{"": 0}', "[null]"]


@pytest.mark.parametrize("text", [*EXACT, *NOTHING])
def test_a_payload_and_a_result_come_back_as_they_went_in(door: Door, text: str) -> None:
    job = submit_text(door, text)
    attempt = door.node.start(job)
    door.node.end(job, attempt, Outcome.SUCCEEDED, result=text)
    answer = door.http.get(f"/api/v1/jobs/{job}").text
    assert f'"payload":{text}' in answer
    assert f'"result":{text}' in answer


@pytest.mark.parametrize("text", [*EXACT, *NOTHING])
def test_a_replay_changes_nothing_of_a_payload(door: Door, text: str) -> None:
    job = submit_text(door, text, handler="second_time")
    door.node.kill_off(job)
    assert door.http.post(f"/api/v1/dead-letters/{job}/replay").status_code == 200
    assert f'"payload":{text}' in door.http.get(f"/api/v1/jobs/{job}").text


def test_a_handler_sees_what_was_sent_also_after_a_replay(
    tmp_path: Path, postgres_dsn: str, redis_url: str
) -> None:
    """Through a real agent and its runners; floats are the handler's own, so they have few digits here."""
    texts = [text for text in (*EXACT, *NOTHING) if "3.14" not in text]
    with (
        open_door(tmp_path / "door", postgres_dsn, redis_url) as door,
        site(tmp_path, postgres_dsn, redis_url) as place,
    ):
        place.agent("real", handler_modules=[str(HANDLERS)]).start().serving()
        jobs = [submit_text(door, text, handler="second_time") for text in texts]
        becomes(door, jobs, "dead")
        answer = door.http.post("/api/v1/dead-letters/replay", json={"ids": jobs}).json()
        assert answer["left"] == 0
        becomes(door, jobs, "succeeded")
        for job, text in zip(jobs, texts, strict=True):
            shown = door.http.get(f"/api/v1/jobs/{job}").text
            assert f'"payload":{text}' in shown
            assert json.dumps(door.job(job)["result"]) == json.dumps(json.loads(text))
        for number in ("9007199254740993", "123456789012345678901234567890"):
            assert f'"result":{number}' in door.http.get(f"/api/v1/jobs/{jobs[texts.index(number)]}").text


def becomes(door: Door, jobs: list[str], state: str) -> None:
    """Waits until all of the jobs are in that state."""

    def all_are() -> bool:
        found = door.http.get("/api/v1/jobs", params={"state": state, "limit": 500}).json()["jobs"]
        return {job["id"] for job in found} >= set(jobs)

    until(all_are, 20, f"{len(jobs)} jobs {state}")
