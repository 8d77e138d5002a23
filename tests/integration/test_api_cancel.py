"""Cancelling over REST (I4, I6)."""

from __future__ import annotations

from uuid import uuid4

from mutirao.domain.job import Outcome
from tests.support.door import Door


def test_a_job_that_waits_is_cancelled_at_once(door: Door) -> None:
    for job in (door.submit(), door.submit(run_at="2050-01-01T00:00:00Z")):
        response = door.http.post(f"/api/v1/jobs/{job}/cancel")
        assert (response.status_code, response.json()) == (200, {"id": job, "state": "cancelled"})
        assert door.job(job)["state"] == "cancelled"
        assert door.http.post(f"/api/v1/jobs/{job}/cancel").json()["state"] == "cancelled"


def test_a_running_job_is_cancelling_until_its_runner_is_dead(door: Door) -> None:
    job = door.submit()
    attempt = door.node.start(job)
    for _ in range(2):
        assert door.http.post(f"/api/v1/jobs/{job}/cancel").json() == {"id": job, "state": "cancelling"}
    shown = door.job(job)
    assert (shown["state"], shown["cancelling"]) == ("running", True)
    assert [e["event"] for e in shown["audit"]].count("cancel_requested") == 1
    door.node.end(job, attempt, Outcome.CANCELLED)
    assert door.job(job)["state"] == "cancelled"


def test_what_has_ended_cannot_be_cancelled(door: Door) -> None:
    job = door.submit()
    door.node.end(job, door.node.start(job), Outcome.SUCCEEDED, result="null")
    response = door.http.post(f"/api/v1/jobs/{job}/cancel")
    assert response.status_code == 409
    assert "succeeded" in response.json()["detail"]
    assert door.http.post(f"/api/v1/jobs/{uuid4()}/cancel").status_code == 404
