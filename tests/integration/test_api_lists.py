"""Lists over REST: pages without gaps or repeats, filters, and strict parameters."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.support.api import fields
from tests.support.door import Door


def test_pages_of_live_and_finished_jobs_have_no_gaps_or_repeats(door: Door) -> None:
    queue = f"q{uuid4().hex}"
    jobs = [door.submit(queue=queue, max_retries=0) for _ in range(23)]
    for job in jobs[::2]:
        door.node.kill_off(job)
    found: list[str] = []
    cursor: str | None = None
    while True:
        params = {"queue": queue, "limit": 5, **({"cursor": cursor} if cursor else {})}
        page = door.http.get("/api/v1/jobs", params=params).json()
        found += [job["id"] for job in page["jobs"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
        assert len(page["jobs"]) == 5
    assert found == sorted(jobs, reverse=True)


def test_lists_are_filtered(door: Door) -> None:
    queue = f"q{uuid4().hex}"
    echo, other = door.submit(queue=queue, max_retries=0), door.submit(queue=queue, handler="anything")
    door.node.kill_off(echo)

    def ids(**query: str) -> set[str]:
        answer = door.http.get("/api/v1/jobs", params={"queue": queue, **query}).json()
        return {job["id"] for job in answer["jobs"]}

    assert ids() == {echo, other}
    assert ids(state="dead") == {echo}
    assert ids(state="queued") == {other}
    assert ids(state="running") == set()
    assert ids(handler="anything") == {other}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=%D9%A3", "limit"),
        ("limit=1e3", "limit"),
        ("state=sleeping", "state"),
        ("cursor=x", "cursor"),
        ("queue=a%00b", "queue"),
        ("handler=a/b", "handler"),
        ("stat=dead", "stat"),
        ("state=dead&state=queued", "state"),
    ],
)
def test_a_wrong_parameter_is_named(door: Door, query: str, field: str) -> None:
    response = door.http.get(f"/api/v1/jobs?{query}")
    assert response.status_code == 422
    assert fields(response.json()) == {field}
