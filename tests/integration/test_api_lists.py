"""Lists over REST: pages without gaps or repeats, filters, and strict parameters."""

from __future__ import annotations

from itertools import chain
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest

from mutirao.domain.job import Outcome
from tests.support.api import PROBLEM, fields, pages
from tests.support.door import Door

PATHS = ("/api/v1/jobs", "/api/v1/dead-letters", "/api/v1/audit")


def test_pages_of_live_and_finished_jobs_have_no_gaps_or_repeats(door: Door) -> None:
    queue = f"q{uuid4().hex}"
    jobs = [door.submit(queue=queue, max_retries=0) for _ in range(23)]
    for job in jobs[::2]:
        door.node.kill_off(job)
    found = list(pages(door, "/api/v1/jobs", "jobs", queue=queue, limit=5))
    assert [len(page) for page in found] == [5, 5, 5, 5, 3]
    assert [job["id"] for job in chain(*found)] == sorted(jobs, reverse=True)


def test_jobs_are_filtered(door: Door) -> None:
    queue = f"q{uuid4().hex}"
    echo, other = door.submit(queue=queue, max_retries=0), door.submit(queue=queue, handler="anything")
    door.node.kill_off(echo)
    created = door.job(other)["created_at"]

    def ids(**query: str) -> set[str]:
        return {job["id"] for job in chain(*pages(door, "/api/v1/jobs", "jobs", **{"queue": queue, **query}))}

    assert ids() == {echo, other}
    assert ids(state="dead") == {echo}
    assert ids(state="queued") == {other}
    assert ids(state="dead,queued") == ids(state="queued,dead,dead") == {echo, other}
    assert ids(state="succeeded,cancelled") == ids(state="running") == set()
    assert ids(handler="anything") == {other}
    assert ids(created_after=created) == {other}
    assert ids(created_before=created) == {echo}
    assert ids(created_after=created, created_before=created) == set()
    assert ids(created_after="1970-01-01T00:00:00Z", created_before="9998-12-31T23:59:59Z") == {echo, other}
    assert ids(created_after="2001-01-01T00:00:00+01:00", created_before="2001-01-02T00:00:00Z") == set()


def test_dead_letters_are_filtered(door: Door) -> None:
    queue = f"q{uuid4().hex}"
    jobs = {}
    for error in ("TypeError", "a/b +%2F..\N{GRINNING FACE}"):
        jobs[error] = door.submit(queue=queue, max_retries=0)
        attempt = door.node.start(jobs[error])
        door.node.end(jobs[error], attempt, Outcome.FAILED, error=f'{{"type": "{error}"}}')
    for error, job in jobs.items():
        query = {"queue": queue, "error_type": error}
        assert [one["id"] for one in chain(*pages(door, PATHS[1], "dead_letters", **query))] == [job]
    assert list(pages(door, PATHS[1], "dead_letters", queue=queue, error_type="None")) == [[]]
    assert list(pages(door, PATHS[1], "dead_letters", queue=queue, handler="anything")) == [[]]


def test_the_audit_log_is_filtered_and_walked(door: Door) -> None:
    job = door.submit(max_retries=0)
    door.node.kill_off(job)

    def walk(**query: object) -> list[dict[str, Any]]:
        return list(chain(*pages(door, "/api/v1/audit", "entries", **{"job_id": job, **query})))

    entries = walk()
    assert [(one["from_state"], one["to_state"]) for one in entries] == [
        ("running", "dead"),
        ("assigned", "running"),
        ("queued", "assigned"),
        (None, "queued"),
    ]
    assert entries == door.job(job)["audit"][::-1] == walk(limit=1) == walk(limit=3)
    assert {one["job_id"] for one in entries} == {job}
    assert walk(event="submitted", actor="api") == entries[-1:]
    assert walk(event="submitted", actor="nobody") == []
    by_node = walk(node=entries[1]["node"])
    assert by_node == walk(node="node-1") == [one for one in entries if one["node"]]
    newest = door.http.get("/api/v1/audit?limit=4&node=node-1").json()["entries"]
    assert newest[: len(by_node)] == by_node
    assert list(pages(door, "/api/v1/audit", "entries", job_id=uuid4())) == [[]]


WRONG = [
    ("limit=0", "limit"),
    ("limit=501", "limit"),
    ("limit=-1", "limit"),
    ("limit=", "limit"),
    ("limit=%D9%A3", "limit"),
    ("limit=1e3", "limit"),
    ("limit=5.0", "limit"),
    ("limit=99999999999999999999", "limit"),
    ("limit=5&limit=5", "limit"),
    ("cursor=", "cursor"),
    ("cursor=x", "cursor"),
    ("cursor=%00", "cursor"),
    ("cursor=" + "9" * 5000, "cursor"),
    ("cursor=-1", "cursor"),
    ("cursor=%D9%A3", "cursor"),
    ("cursor=1_0", "cursor"),
    ("cursor=99999999999999999.00000000000000000000000000000000.0", "cursor"),
    (f"cursor={UUID(int=1).urn}", "cursor"),
    (f"cursor={{{UUID(int=1)}}}", "cursor"),
    ("stat=dead", "stat"),
    ("=", ""),
    ("Limit=5", "Limit"),
    ("actor=%ff&handler=%ff", ""),
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("query", "field"), WRONG)
def test_a_wrong_parameter_is_named(door: Door, path: str, query: str, field: str) -> None:
    assert refusal(door, path, query) == {field}


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        (PATHS[0], "state=sleeping", "state"),
        (PATHS[0], "state=", "state"),
        (PATHS[0], "state=dead,", "state"),
        (PATHS[0], "state=DEAD", "state"),
        (PATHS[0], "state=dead&state=queued", "state"),
        (PATHS[0], "queue=a%00b", "queue"),
        (PATHS[0], "handler=a/b", "handler"),
        (PATHS[0], "created_after=yesterday", "created_after"),
        (PATHS[0], "created_after=2026-01-01T00:00:00", "created_after"),
        (PATHS[0], "created_after=2026-01-01T00:00:00+01:00", "created_after"),  # the plus is a space
        (PATHS[0], "created_before=0", "created_before"),
        (PATHS[0], "created_before=10000-01-01T00:00:00Z", "created_before"),
        (PATHS[1], "error_type=", "error_type"),
        (PATHS[1], "error_type=%00", "error_type"),
        (PATHS[1], "error_type=" + "x" * 201, "error_type"),
        (PATHS[1], "state=dead", "state"),
        (PATHS[2], "job_id=0", "job_id"),
        (PATHS[2], "job_id=", "job_id"),
        (PATHS[2], f"job_id={UUID(int=1).hex}", "job_id"),
        (PATHS[2], "event=a/b", "event"),
        (PATHS[2], "actor=", "actor"),
        (PATHS[2], "node=a%0Ab", "node"),
    ],
)
def test_a_wrong_filter_is_named(door: Door, path: str, query: str, field: str) -> None:
    assert refusal(door, path, query) == {field}


ODD = ["", "a/b", "a+b", "a%2Fb", "..", "a b", "\N{GRINNING FACE}", "x" * 256, "\x00", "<script>"]


@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_refused_or_found_nowhere(door: Door, name: str) -> None:
    for path, parameter in (
        *((PATHS[0], "handler"), (PATHS[0], "queue"), (PATHS[1], "handler"), (PATHS[1], "error_type")),
        *((PATHS[2], "event"), (PATHS[2], "actor"), (PATHS[2], "node")),
    ):
        answer = door.http.get(f"{path}?{parameter}={quote(name, safe='')}")
        assert answer.status_code in {200, 422}
        if answer.status_code == 422:
            assert fields(answer.json()) == {parameter}
        else:
            assert not any(value for value in answer.json().values())


@pytest.mark.parametrize(
    "path", ["/api/v1/nodes", "/api/v1/status", "/api/v1/handlers", f"/api/v1/jobs/{UUID(int=1)}"]
)
def test_what_takes_no_parameters_says_so(door: Door, path: str) -> None:
    assert refusal(door, path, "limit=5") == {"limit"}


def refusal(door: Door, path: str, query: str) -> set[str]:
    """The fields that the problem names with which the query is refused."""
    response = door.http.get(f"{path}?{query}")
    assert response.status_code == 422, response.text
    assert response.headers["Content-Type"] == PROBLEM
    return fields(response.json())
