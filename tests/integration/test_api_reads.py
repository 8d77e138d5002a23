"""Reading one thing over REST: a job, the nodes, the status, a handler."""

from __future__ import annotations

from uuid import uuid4

import pytest

from mutirao.domain.job import Outcome
from tests.support.door import Door


@pytest.mark.parametrize("path", ["jobs", "dead-letters"])
@pytest.mark.parametrize("job", [str(uuid4()), "nothing", "..", "%2F", "a%00b", "x" * 300])
def test_an_unknown_job_is_not_found(door: Door, path: str, job: str) -> None:
    response = door.http.get(f"/api/v1/{path}/{job}")
    assert response.status_code == 404
    assert response.headers["Content-Type"] == "application/problem+json"


def test_a_job_shows_its_attempts_and_its_history(door: Door) -> None:
    job = door.submit(max_retries=2)
    first = door.node.start(job)
    running = door.job(job)
    assert (running["state"], running["attempt"], running["node_name"]) == ("running", 1, "node-1")
    assert [(a["attempt"], a["outcome"], a["ended_at"]) for a in running["attempts"]] == [(1, None, None)]
    door.node.end(job, first, Outcome.FAILED, error='{"type": "E", "message": "no luck"}', delay=500.0)
    retried = door.job(job)
    assert retried["state"] == "scheduled"
    assert [(a["attempt"], a["outcome"], a["error"]["message"]) for a in retried["attempts"]] == [
        (1, "failed", "no luck")
    ]
    states = [(e["from_state"], e["to_state"]) for e in retried["audit"] if e["to_state"]]
    assert states == [
        (None, "queued"),
        ("queued", "assigned"),
        ("assigned", "running"),
        ("running", "scheduled"),
    ]


def test_nodes_and_status(door: Door) -> None:
    door.submit()
    door.node.keep_house()
    nodes = door.http.get("/api/v1/nodes").json()["nodes"]
    assert [(node["name"], node["role"], node["status"]) for node in nodes] == [
        ("node-1", "coordinator", "live")
    ]
    assert nodes[0]["beat_age"] >= 0
    status = door.http.get("/api/v1/status").json()
    assert (status["leader"], status["term"]) == ("node-1", 1)
    assert status["queue_length"] >= 1
    assert len(status["recent_jobs"]) == 20
