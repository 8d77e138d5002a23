"""Reading one thing over REST: a job, the nodes, the status, a handler."""

from __future__ import annotations

from uuid import uuid4

import pytest

from mutirao.domain.job import Outcome
from tests.support.api import PROBLEM
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
    jobs = [door.submit() for _ in range(21)]
    door.node.keep_house()
    nodes = door.http.get("/api/v1/nodes").json()["nodes"]
    assert [(node["name"], node["role"], node["status"]) for node in nodes] == [
        ("node-1", "coordinator", "live")
    ]
    assert nodes[0]["beat_age"] >= 0
    status = door.http.get("/api/v1/status").json()
    assert (status["leader"], status["term"]) == ("node-1", 1)
    assert status["queue_length"] >= 1
    assert [job["id"] for job in status["recent_jobs"]] == jobs[:0:-1]


def test_handlers_are_listed_and_shown_with_their_contracts(door: Door) -> None:
    listed = door.http.get("/api/v1/handlers").json()["handlers"]
    names = [one["handler"] for one in listed]
    assert names == sorted(names)
    assert {"echo", "particular", "anything"} <= set(names)
    shown = door.http.get("/api/v1/handlers/particular").json()
    assert shown == next(one for one in listed if one["handler"] == "particular")
    assert shown["defaults"]["queue"] == "special"
    assert shown["payload_schema"] == {"additionalProperties": {"type": "integer"}, "type": "object"}


@pytest.mark.parametrize(
    "name",
    ["nobody", "Echo", "a/b", "a%2Fb", "a+b", "..", "%2E%2E", "\N{GRINNING FACE}", "x" * 256, "%00", "%ff"],
)
def test_an_unknown_handler_is_not_found(door: Door, name: str) -> None:
    response = door.http.get(f"/api/v1/handlers/{name}")
    assert response.status_code == 404
    assert response.headers["Content-Type"] == PROBLEM
