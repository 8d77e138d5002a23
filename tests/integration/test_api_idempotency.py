"""The same request again is the same job, however it comes (I1; FAILURES: Input)."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest

from tests.support.api import ECHO, JSON, fields, refused
from tests.support.door import Door, open_door
from tests.support.stage import Stage, at_once
from tests.support.waiting import until


def test_the_same_request_again_is_the_same_job_whatever_became_of_it(door: Door) -> None:
    key = str(uuid4())
    body = {**ECHO, "idempotency_key": key, "max_retries": 0}
    first = door.http.post("/api/v1/jobs", json=body)
    assert first.status_code == 201
    door.node.kill_off(first.json()["id"])
    again = door.http.post("/api/v1/jobs", content=json.dumps(body, indent=3), headers=JSON)
    assert again.status_code == 200
    assert again.json() == {**first.json(), "state": "dead", "created": False}


@pytest.mark.parametrize(
    "change",
    [{"payload": {"message": "other"}}, {"priority": 1}, {"priority": 5}, {"run_at": "2050-01-01T00:00:00Z"}],
)
def test_the_same_key_with_another_request_is_a_conflict(door: Door, change: dict[str, Any]) -> None:
    body = {**ECHO, "idempotency_key": str(uuid4())}
    assert door.http.post("/api/v1/jobs", json=body).status_code == 201
    problem = refused(door, {**body, **change}, 409)
    assert body["idempotency_key"] in problem["detail"]


def test_twenty_requests_at_once_with_one_key_make_one_job(door: Door) -> None:
    body, before = {**ECHO, "idempotency_key": str(uuid4())}, door.count()
    answers = at_once([lambda: door.http.post("/api/v1/jobs", json=body)] * 20)
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert door.count() == before + 1


def test_a_client_that_timed_out_and_sent_the_same_again_has_one_job(
    tmp_path: Path, postgres_dsn: str, redis_url: str
) -> None:
    """The first answer is lost on its way: the submission is stored, and found again under its key."""
    with open_door(tmp_path, postgres_dsn, redis_url) as door, Stage(postgres_dsn) as stage:
        door.submit()
        body = {**ECHO, "idempotency_key": str(uuid4())}
        with psycopg.connect(postgres_dsn) as holder:
            holder.execute("LOCK TABLE mutirao.jobs IN EXCLUSIVE MODE")
            with pytest.raises(httpx.ReadTimeout):
                door.http.post("/api/v1/jobs", json=body, timeout=0.5)
            stage.blocked()
        until(lambda: door.count() == 2, 10, "the first request is stored, though nobody waits for it")
        again = door.http.post("/api/v1/jobs", json=body)
        assert (again.status_code, again.json()["created"]) == (200, False)
        assert door.count() == 2


def test_a_refused_neighbour_does_not_touch_the_others(door: Door) -> None:
    """Submissions that arrive together are stored together; one conflict among them stays its own."""
    key = str(uuid4())
    assert door.http.post("/api/v1/jobs", json={**ECHO, "idempotency_key": key}).status_code == 201
    other = {**ECHO, "payload": {"message": "other"}, "idempotency_key": key}
    bodies = [other if number % 3 == 0 else ECHO for number in range(24)]
    answers = at_once([partial(door.http.post, "/api/v1/jobs", json=body) for body in bodies])
    assert [answer.status_code for answer in answers] == [409, 201, 201] * 8


def post(door: Door, header: str | bytes, **field: str) -> httpx.Response:
    return door.http.post("/api/v1/jobs", json={**ECHO, **field}, headers={"Idempotency-Key": header})


def test_the_header_is_the_field(door: Door) -> None:
    key = str(uuid4())
    by_header, by_both = post(door, key), post(door, key, idempotency_key=key)
    by_field = door.http.post("/api/v1/jobs", json={**ECHO, "idempotency_key": key})
    assert (by_header.status_code, by_both.status_code, by_field.status_code) == (201, 200, 200)
    assert by_header.json()["id"] == by_both.json()["id"] == by_field.json()["id"]
    assert door.job(by_header.json()["id"])["idempotency_key"] == key


def test_header_and_field_must_not_contradict_each_other(door: Door) -> None:
    before, answer = door.count(), post(door, "one", idempotency_key="other")
    assert (answer.status_code, fields(answer.json())) == (422, {"idempotency_key"})
    assert door.count() == before


@pytest.mark.parametrize("key", ["", "k" * 256, "k" * 8192, "a\tb", "é".encode()])
def test_a_header_that_is_no_key_is_refused_by_name(door: Door, key: str | bytes) -> None:
    before, answer = door.count(), post(door, key)
    assert (answer.status_code, fields(answer.json())) == (422, {"Idempotency-Key"})
    assert door.count() == before


def test_a_batch_takes_no_header(door: Door) -> None:
    headers = {"Idempotency-Key": "x"}
    answer = door.http.post("/api/v1/jobs/batch", json={"jobs": [ECHO]}, headers=headers)
    assert (answer.status_code, fields(answer.json())) == (422, {"Idempotency-Key"})


def test_one_conflict_refuses_the_whole_batch(door: Door) -> None:
    key = str(uuid4())
    door.submit(idempotency_key=key)
    refused(door, {"jobs": [ECHO, {**ECHO, "payload": {"message": "b"}, "idempotency_key": key}]}, 409)


def test_a_repeated_batch_is_the_same_jobs(door: Door) -> None:
    body = {"jobs": [{**ECHO, "idempotency_key": str(uuid4())} for _ in range(3)]}
    first, again = (door.http.post("/api/v1/jobs/batch", json=body) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert [job["id"] for job in first.json()["jobs"]] == [job["id"] for job in again.json()["jobs"]]
