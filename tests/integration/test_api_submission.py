"""Submitting over REST: what is said, what is not, and the same again (I1, I9; FAILURES: Input)."""

from __future__ import annotations

from uuid import uuid4

from tests.support.api import ECHO
from tests.support.door import Door


def test_a_silent_caller_gets_the_handlers_defaults(door: Door) -> None:
    job = door.job(door.submit(handler="particular", payload={"n": 1}))
    assert (job["queue"], job["timeout"], job["max_retries"], job["priority"]) == ("special", 7.5, 0, 0)
    assert job["backoff"] == {"base": 2.0, "cap": 9.0}
    assert (job["state"], job["attempt"], job["max_attempts"]) == ("queued", 0, 1)
    assert job["submitted_by"] == "api"
    assert [(e["event"], e["from_state"], e["to_state"]) for e in job["audit"]] == [
        ("submitted", None, "queued")
    ]


def test_zero_is_a_value_wherever_it_is_legal(door: Door) -> None:
    backoff = {"base": 0, "cap": 0}
    job = door.job(door.submit(priority=0, max_retries=0, backoff=backoff, run_at="1970-01-01T00:00:00Z"))
    assert (job["priority"], job["max_retries"], job["backoff"]) == (0, 0, {"base": 0.0, "cap": 0.0})
    assert (job["run_at"], job["state"], job["max_attempts"]) == ("1970-01-01T00:00:00Z", "queued", 1)


def test_an_integer_may_be_written_as_json_schema_allows(door: Door) -> None:
    key = str(uuid4())
    first = door.submit(priority=7.0, max_retries=0.0, idempotency_key=key)
    assert (door.job(first)["priority"], door.job(first)["max_retries"]) == (7, 0)
    again = door.http.post(
        "/api/v1/jobs", json={**ECHO, "priority": 7, "max_retries": 0, "idempotency_key": key}
    )
    assert (again.status_code, again.json()["id"]) == (200, first)


def test_null_is_silence_but_for_the_payload(door: Door) -> None:
    silent = dict.fromkeys(("queue", "priority", "max_retries", "backoff", "timeout", "run_at"))
    job = door.job(door.submit(handler="particular", payload={}, **silent, idempotency_key=None))
    assert (job["queue"], job["priority"], job["timeout"]) == ("special", 0, 7.5)
    assert door.job(door.submit(handler="anything", payload=None))["payload"] is None


def test_what_the_caller_says_is_kept(door: Door) -> None:
    said = {"queue": "q.1-a_B", "priority": 9, "max_retries": 100, "timeout": 0.25, "backoff": {"base": 3}}
    job = door.job(door.submit(handler="particular", payload={}, **said))
    assert {name: job[name] for name in ("queue", "priority", "max_retries", "timeout")} == {
        name: said[name] for name in ("queue", "priority", "max_retries", "timeout")
    }
    assert job["backoff"] == {"base": 3.0, "cap": 9.0}


def test_the_answer_names_the_job_and_where_it_is(door: Door) -> None:
    response = door.http.post("/api/v1/jobs", json=ECHO)
    accepted = response.json()
    assert response.headers["Location"] == accepted["url"] == f"/api/v1/jobs/{accepted['id']}"
    assert (accepted["state"], accepted["created"], accepted["handler"]) == ("queued", True, "echo")
    assert door.http.get(accepted["url"]).status_code == 200


def test_a_time_is_an_instant_whatever_its_offset(door: Door) -> None:
    spelled = ["2050-06-01T12:00:00Z", "2050-06-01T13:00:00+01:00", "2050-06-01T12:00:00-00:00"]
    jobs = [door.job(door.submit(run_at=text)) for text in spelled]
    assert {job["run_at"] for job in jobs} == {"2050-06-01T12:00:00Z"}
    assert {job["state"] for job in jobs} == {"scheduled"}


def test_a_past_time_is_due_now(door: Door) -> None:
    assert door.job(door.submit(run_at="2020-01-01T00:00:00Z"))["state"] == "queued"


def test_a_batch_is_stored_whole_and_in_order(door: Door) -> None:
    jobs = [{"handler": "echo", "payload": {"message": str(n)}, "priority": n % 10} for n in range(50)]
    response = door.http.post("/api/v1/jobs/batch", json={"jobs": jobs})
    assert response.status_code == 201
    ids = [job["id"] for job in response.json()["jobs"]]
    assert ids == sorted(ids)
    assert [door.job(job)["payload"]["message"] for job in ids[:3]] == ["0", "1", "2"]
