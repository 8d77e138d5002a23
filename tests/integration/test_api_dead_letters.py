"""Dead letters over REST: listed, replayed, discarded; one or many (I5, I6; FAILURES: Dead letters)."""

from __future__ import annotations

from itertools import chain
from typing import Any
from uuid import uuid4

import pytest

from mutirao.domain.job import Outcome
from tests.support.api import fields, pages, refused
from tests.support.door import Door
from tests.support.stage import at_once


def test_dead_letters_are_listed_until_they_are_decided(door: Door) -> None:
    queue = f"q{uuid4().hex}"
    jobs = [door.submit(queue=queue, max_retries=0) for _ in range(7)]
    for job in jobs:
        door.node.kill_off(job)

    def listed() -> list[dict[str, Any]]:
        return list(chain(*pages(door, "/api/v1/dead-letters", "dead_letters", queue=queue, limit=3)))

    assert [letter["id"] for letter in listed()] == jobs[::-1]
    assert {letter["error"]["message"] for letter in listed()} == {"no luck"}
    assert door.http.post(f"/api/v1/dead-letters/{jobs[0]}/replay").json() == {
        "id": jobs[0],
        "state": "queued",
    }
    assert door.http.post(f"/api/v1/dead-letters/{jobs[1]}/discard").json() == {
        "id": jobs[1],
        "state": "dead",
    }
    assert [letter["id"] for letter in listed()] == jobs[:1:-1]
    shown = door.http.get(f"/api/v1/dead-letters/{jobs[1]}").json()
    assert shown["discarded_at"] is not None
    assert shown["attempts"][0]["error"]["message"] == "no luck"


def test_a_replay_goes_on_counting_and_keeps_the_old_attempts(door: Door) -> None:
    job = door.submit(max_retries=0)
    door.node.kill_off(job)
    assert door.http.post(f"/api/v1/dead-letters/{job}/replay").status_code == 200
    assert door.job(job)["max_attempts"] == 2
    door.node.end(job, door.node.start(job), Outcome.SUCCEEDED, result='"done"')
    shown = door.job(job)
    assert [(a["attempt"], a["outcome"]) for a in shown["attempts"]] == [(1, "failed"), (2, "succeeded")]
    assert "replayed" in [e["event"] for e in shown["audit"]]
    assert shown["result"] == "done"


def test_twenty_replays_at_once_are_one_replay(door: Door) -> None:
    job = door.submit(max_retries=0)
    door.node.kill_off(job)
    path = f"/api/v1/dead-letters/{job}/replay"
    statuses = [answer.status_code for answer in at_once([lambda: door.http.post(path)] * 20)]
    assert sorted(statuses) == [200] + [409] * 19


@pytest.mark.parametrize("verb", ["replay", "discard"])
def test_only_dead_letters_are_replayed_or_discarded(door: Door, verb: str) -> None:
    def attempt(job: str) -> int:
        return door.http.post(f"/api/v1/dead-letters/{job}/{verb}").status_code

    queued, running, succeeded, discarded = (door.submit(max_retries=0) for _ in range(4))
    started = door.node.start(running)
    door.node.end(succeeded, door.node.start(succeeded), Outcome.SUCCEEDED, result="1")
    door.node.kill_off(discarded)
    assert door.http.post(f"/api/v1/dead-letters/{discarded}/discard").status_code == 200
    assert [attempt(job) for job in (queued, running, succeeded, discarded)] == [409] * 4
    assert attempt(str(uuid4())) == 404
    assert door.http.get(f"/api/v1/dead-letters/{queued}").status_code == 404
    door.node.end(running, started, Outcome.SUCCEEDED, result="1")


# Many at once.


def dead(door: Door, count: int, **fields: Any) -> list[str]:
    """So many dead letters, the latest first."""
    jobs = [door.submit(max_retries=0, **fields) for _ in range(count)]
    for job in jobs:
        door.node.kill_off(job)
    return jobs[::-1]


def decide(door: Door, verb: str, **body: Any) -> Any:
    response = door.http.post(f"/api/v1/dead-letters/{verb}", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def events(door: Door, job: str) -> list[str]:
    return [entry["event"] for entry in door.job(job)["audit"]]


def test_many_are_replayed_by_id_each_audited_and_what_is_none_is_left(door: Door) -> None:
    jobs, queued = dead(door, 3), door.submit()
    answer = decide(door, "replay", ids=[*jobs, jobs[0], queued, str(uuid4())])
    assert answer == {"matched": 5, "replayed": jobs, "left": 2, "next_cursor": None}
    assert [door.job(job)["state"] for job in jobs] == ["queued"] * 3
    assert [events(door, job)[-1] for job in jobs] == ["replayed"] * 3
    assert decide(door, "replay", ids=jobs) == {"matched": 3, "replayed": [], "left": 3, "next_cursor": None}


def test_a_filter_is_walked_page_by_page_and_what_dies_again_is_not_met_twice(door: Door) -> None:
    queue = f"q{uuid4().hex}"
    jobs, others = dead(door, 5, queue=queue), dead(door, 1)
    wanted, done, cursor = {"queue": queue, "handler": "echo", "error_type": "E"}, list[str](), None
    while True:
        answer = decide(door, "replay", filter=wanted, limit=2, **({"cursor": cursor} if cursor else {}))
        for job in answer["replayed"]:
            door.node.kill_off(job)
        done, cursor = done + answer["replayed"], answer["next_cursor"]
        if cursor is None:
            break
    assert done == jobs
    assert [door.job(job)["attempt"] for job in jobs] == [2] * 5
    assert door.job(others[0])["state"] == "dead"


def test_many_are_discarded_by_filter(door: Door) -> None:
    queue = f"q{uuid4().hex}"
    jobs = dead(door, 3, queue=queue)
    assert decide(door, "discard", filter={"queue": queue, "error_type": "Other"})["matched"] == 0
    answer = decide(door, "discard", filter={"queue": queue})
    assert answer == {"matched": 3, "discarded": jobs, "left": 0, "next_cursor": None}
    assert [events(door, job)[-1] for job in jobs] == ["discarded"] * 3
    assert decide(door, "discard", filter={"queue": queue})["matched"] == 0
    assert decide(door, "replay", ids=jobs)["left"] == 3


def test_two_callers_replay_many_and_each_job_once(door: Door) -> None:
    jobs = dead(door, 20)
    answers = at_once([lambda: decide(door, "replay", ids=jobs)] * 4)
    assert sorted(job for answer in answers for job in answer["replayed"]) == sorted(jobs)
    assert {door.job(job)["max_attempts"] for job in jobs} == {2}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "ids"),
        ({"ids": []}, "ids"),
        ({"ids": ["x"]}, "ids.0"),
        ({"ids": [5]}, "ids.0"),
        ({"ids": [str(uuid4())] * 1001}, "ids"),
        ({"ids": [str(uuid4())], "limit": 5}, "limit"),
        ({"ids": [str(uuid4())], "filter": {}}, "filter"),
        ({"filter": None}, "filter"),
        ({"filter": {"state": "dead"}}, "filter.state"),
        ({"filter": {"queue": "a/b"}}, "filter.queue"),
        ({"filter": {"error_type": ""}}, "filter.error_type"),
        ({"filter": {}, "limit": 0}, "limit"),
        ({"filter": {}, "limit": 1001}, "limit"),
        ({"filter": {}, "cursor": "x"}, "cursor"),
        ({"filter": {}, "cursor": 5}, "cursor"),
    ],
)
@pytest.mark.parametrize("verb", ["replay", "discard"])
def test_a_choice_that_is_none_changes_nothing(
    door: Door, verb: str, body: dict[str, Any], field: str
) -> None:
    (job,) = dead(door, 1)
    assert fields(refused(door, body, path=f"/api/v1/dead-letters/{verb}")) == {field}
    shown = door.job(job)
    assert (shown["state"], shown["discarded_at"]) == ("dead", None)
