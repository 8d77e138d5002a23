"""The REST API of a real web server over real stores (I4, I5, I6, I9, I10; FAILURES: Input, Dead letters)."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mutirao.domain.job import Outcome
from mutirao.web.bodies import MAX_BATCH_BODY, MAX_BODY
from tests.support.door import Door, open_door
from tests.support.waiting import until

ECHO = {"handler": "echo", "payload": {"message": "hello"}}
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def door(
    database_server: Any, migrated_template: str, redis_server: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Door]:
    dsn = database_server.create(migrated_template)
    with open_door(tmp_path_factory.mktemp("door"), dsn, redis_server.url) as opened:
        yield opened
    database_server.drop(dsn)


def refused(door: Door, body: dict[str, Any] | bytes, status: int = 422) -> dict[str, Any]:
    """The problem with which the body is refused; nothing may have been stored."""
    before = door.count()
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    path = "/api/v1/jobs/batch" if b'"jobs"' in content[:20] else "/api/v1/jobs"
    response = door.http.post(path, content=content, headers=JSON)
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["status"] == status
    assert {"type", "title", "detail"} <= problem.keys()
    assert door.count() == before
    return problem


def fields(problem: dict[str, Any]) -> set[str]:
    return {error["field"] for error in problem["errors"]}


# Submitting.


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
    job = door.job(door.submit(priority=0, max_retries=0, backoff=backoff))
    assert (job["priority"], job["max_retries"], job["backoff"]) == (0, 0, {"base": 0.0, "cap": 0.0})


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


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"priority": 10}, "priority"),
        ({"priority": -1}, "priority"),
        ({"priority": True}, "priority"),
        ({"priority": "5"}, "priority"),
        ({"priority": 5.0}, "priority"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": 101}, "max_retries"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": 1e12}, "timeout"),
        ({"backoff": {"base": -1}}, "backoff.base"),
        ({"backoff": {"bass": 1}}, "backoff.bass"),
        ({"backoff": 3}, "backoff"),
        ({"prioritty": 1}, "prioritty"),
        ({"handler": 5}, "handler"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"idempotency_key": "k" * 256}, "idempotency_key"),
        ({"idempotency_key": "k" * 8192}, "idempotency_key"),
        ({"idempotency_key": "a\nb"}, "idempotency_key"),
        ({"run_at": "2026-01-31T08:00:00"}, "run_at"),
        ({"run_at": "10000-01-01T00:00:00Z"}, "run_at"),
        ({"run_at": "9999-12-31T23:59:59Z"}, "run_at"),
        ({"run_at": "0001-01-01T00:00:00+01:00"}, "run_at"),
        ({"run_at": "2026-02-30T00:00:00Z"}, "run_at"),
        ({"run_at": "tomorrow"}, "run_at"),
        ({"run_at": 1780000000}, "run_at"),
    ],
)
def test_a_wrong_field_is_named(door: Door, change: dict[str, Any], field: str) -> None:
    assert fields(refused(door, {**ECHO, **change})) == {field}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a/b",
        "a+b",
        "a%2Fb",
        "..",
        "-a",
        "a b",
        "a\tb",
        "\N{GRINNING FACE}",
        "x" * 256,
        "x" * 101,
        "a\n",
        "é",
    ],
)
@pytest.mark.parametrize("field", ["queue", "handler"])
def test_odd_names_stop_at_the_door(door: Door, field: str, name: str) -> None:
    assert field in fields(refused(door, {**ECHO, field: name}))


def test_several_wrong_fields_are_all_named(door: Door) -> None:
    problem = refused(door, {"handler": "echo", "priority": 11, "timeout": 0, "que": "x"})
    assert fields(problem) == {"priority", "timeout", "que"}
    assert "`queue`" in problem["hint"]


def test_an_unknown_handler_gets_a_suggestion(door: Door) -> None:
    problem = refused(door, {"handler": "ecko", "payload": {}})
    assert fields(problem) == {"handler"}
    assert "did you mean `echo`?" in problem["hint"]
    assert "particular" in problem["hint"]


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({}, {"payload.seconds"}),
        ({"seconds": "5"}, {"payload.seconds"}),
        ({"seconds": -1}, {"payload.seconds"}),
        ({"seconds": 1, "extra": 1}, {"payload.extra"}),
        ({"second": 1}, {"payload.seconds", "payload.second"}),
        ("hello", {"payload"}),
        (None, {"payload"}),
    ],
)
def test_a_payload_is_checked_against_the_contract(door: Door, payload: object, expected: set[str]) -> None:
    assert fields(refused(door, {"handler": "sleep", "payload": payload})) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"echo"',
        b"null",
        b'{"handler": "echo", "handler": "echo", "payload": {"message": "x"}}',
        b'{"handler": "echo", "payload": {"message": "x", "message": "x"}}',
        b'{"handler": "echo", "payload": {"message": "\\u0000"}}',
        b'{"handler": "echo", "payload": {"message": "\\ud800"}}',
        b'{"handler": "anything", "payload": NaN}',
        b'{"handler": "anything", "payload": 1e400}',
        b'{"handler": "anything", "payload": ' + b"9" * 5000 + b"}",
        b'{"handler": "anything", "payload": ' + b"[" * 101 + b"]" * 101 + b"}",
        b'{"handler": "anything", "payload": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b'{"handler": "echo", "payload": {"message": "\xff"}}',
    ],
)
def test_what_is_not_strict_json_is_refused(door: Door, body: bytes) -> None:
    refused(door, body)


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


def test_a_time_is_an_instant_whatever_its_offset(door: Door) -> None:
    spelled = ["2050-06-01T12:00:00Z", "2050-06-01T13:00:00+01:00", "2050-06-01T12:00:00-00:00"]
    jobs = [door.job(door.submit(run_at=text)) for text in spelled]
    assert {job["run_at"] for job in jobs} == {"2050-06-01T12:00:00Z"}
    assert {job["state"] for job in jobs} == {"scheduled"}


def test_a_past_time_is_due_now(door: Door) -> None:
    assert door.job(door.submit(run_at="2020-01-01T00:00:00Z"))["state"] == "queued"


# Idempotency.


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
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda: answers.append(door.http.post("/api/v1/jobs", json=body)))
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert door.count() == before + 1


def test_a_refused_neighbour_does_not_touch_the_others(door: Door) -> None:
    """Submissions that arrive together are stored together; one conflict among them stays its own."""
    key = str(uuid4())
    assert door.http.post("/api/v1/jobs", json={**ECHO, "idempotency_key": key}).status_code == 201
    other = {**ECHO, "payload": {"message": "other"}, "idempotency_key": key}
    bodies = [other if number % 3 == 0 else ECHO for number in range(24)]
    statuses: list[tuple[int, int]] = []

    def post(number: int) -> None:
        statuses.append((number, door.http.post("/api/v1/jobs", json=bodies[number]).status_code))

    threads = [threading.Thread(target=post, args=(number,)) for number in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [(number, 409 if number % 3 == 0 else 201) for number in range(24)]


def test_the_header_is_the_field(door: Door) -> None:
    key = str(uuid4())
    by_header = door.http.post("/api/v1/jobs", json=ECHO, headers={"Idempotency-Key": key})
    by_both = door.http.post(
        "/api/v1/jobs", json={**ECHO, "idempotency_key": key}, headers={"Idempotency-Key": key}
    )
    assert (by_header.status_code, by_both.status_code) == (201, 200)
    assert by_header.json()["id"] == by_both.json()["id"]
    other = door.http.post(
        "/api/v1/jobs", json={**ECHO, "idempotency_key": key}, headers={"Idempotency-Key": "x"}
    )
    assert other.status_code == 422
    assert fields(other.json()) == {"idempotency_key"}


# Batches.


def test_a_batch_is_stored_whole_and_in_order(door: Door) -> None:
    jobs = [{"handler": "echo", "payload": {"message": str(n)}, "priority": n % 10} for n in range(50)]
    response = door.http.post("/api/v1/jobs/batch", json={"jobs": jobs})
    assert response.status_code == 201
    ids = [job["id"] for job in response.json()["jobs"]]
    assert ids == sorted(ids)
    assert [door.job(job)["payload"]["message"] for job in ids[:3]] == ["0", "1", "2"]


def test_one_wrong_job_refuses_the_whole_batch(door: Door) -> None:
    wrong = {"handler": "sleep", "payload": {"seconds": "5"}}
    assert fields(refused(door, {"jobs": [ECHO, ECHO, ECHO, wrong]})) == {"jobs.3.payload.seconds"}
    assert fields(refused(door, {"jobs": [ECHO, {**ECHO, "priority": 99}]})) == {"jobs.1.priority"}
    assert fields(refused(door, {"jobs": [ECHO, {"handler": "ecko"}]})) == {"jobs.1.handler"}
    assert fields(refused(door, {"jobs": []})) == {"jobs"}
    keyed = {**ECHO, "idempotency_key": str(uuid4())}
    assert fields(refused(door, {"jobs": [keyed, ECHO, keyed]})) == {"jobs.2.idempotency_key"}
    deep = {"handler": "anything", "payload": json.loads("[" * 101 + "]" * 101)}
    assert fields(refused(door, {"jobs": [ECHO, deep]})) == {"jobs.1.payload"}


def test_one_conflict_refuses_the_whole_batch(door: Door) -> None:
    key = str(uuid4())
    door.submit(idempotency_key=key)
    refused(door, {"jobs": [ECHO, {**ECHO, "payload": {"message": "b"}, "idempotency_key": key}]}, 409)


def test_a_repeated_batch_is_the_same_jobs(door: Door) -> None:
    body = {"jobs": [{**ECHO, "idempotency_key": str(uuid4())} for _ in range(3)]}
    first, again = (door.http.post("/api/v1/jobs/batch", json=body) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert [job["id"] for job in first.json()["jobs"]] == [job["id"] for job in again.json()["jobs"]]


# Sizes.


def padded(size: int) -> bytes:
    """A valid body of exactly `size` bytes."""
    frame = b'{"handler": "echo", "payload": {"message": "%s"}}'
    return frame % (b"x" * (size - len(frame) + 2))


def chunks(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 60_000):
        yield body[start : start + 60_000]


@pytest.mark.parametrize("chunked", [False, True], ids=["with a length", "chunked"])
@pytest.mark.parametrize(("more", "status"), [(-1, 201), (0, 201), (1, 413), (5_000_000, 413)])
def test_the_limit_of_a_body_is_exact(door: Door, chunked: bool, more: int, status: int) -> None:
    body = padded(MAX_BODY + more)
    response = door.http.post("/api/v1/jobs", content=chunks(body) if chunked else body, headers=JSON)
    assert response.status_code == status, response.text[:200]
    if status == 201:
        message = door.job(response.json()["id"])["payload"]["message"]
        assert len(message) == len(json.loads(body)["payload"]["message"])


def test_a_batch_may_be_larger_but_not_each_payload(door: Door) -> None:
    job = {"handler": "echo", "payload": {"message": "x" * 900_000}}
    large = door.http.post("/api/v1/jobs/batch", json={"jobs": [job] * 5})
    assert large.status_code == 201
    over = {"handler": "echo", "payload": {"message": "x" * (1 << 20)}}
    assert fields(refused(door, {"jobs": [ECHO, over]})) == {"jobs.1.payload"}
    body = b'{"jobs": [' + b" " * MAX_BATCH_BODY + b"]}"
    assert refused(door, body, 413)["detail"] == f"the body may have at most {MAX_BATCH_BODY} bytes"


@pytest.mark.parametrize(
    ("framing", "suffix"),
    [
        (b"Content-Length: 500\r\n\r\n", b""),
        (b"Transfer-Encoding: chunked\r\n\r\n200\r\n", b""),
        (b"Transfer-Encoding: chunked\r\n\r\n34\r\n", b"\r\n"),
    ],
    ids=["by its length", "inside a chunk", "before the last chunk"],
)
def test_a_body_cut_short_is_no_job(door: Door, framing: bytes, suffix: bytes) -> None:
    before, body = door.count(), json.dumps(ECHO).encode()
    assert len(body) == 0x34
    host = door.url.removeprefix("http://")
    head = f"POST /api/v1/jobs HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n".encode()
    with socket.create_connection((host.split(":")[0], int(host.split(":")[1])), timeout=10) as connection:
        connection.sendall(head + framing + body + suffix)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")
    assert door.count() == before


@pytest.mark.parametrize(
    "headers",
    [{"Content-Type": "text/plain"}, {}, {**JSON, "Content-Encoding": "gzip"}],
    ids=["text", "none", "encoded"],
)
def test_only_plain_json_is_read(door: Door, headers: dict[str, str]) -> None:
    response = door.http.post("/api/v1/jobs", content=json.dumps(ECHO), headers=headers)
    assert response.status_code == 415


# Reading.


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


# Cancelling.


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


# Dead letters.


def test_dead_letters_are_listed_until_they_are_decided(door: Door) -> None:
    queue = f"q{uuid4().hex}"
    jobs = [door.submit(queue=queue, max_retries=0) for _ in range(7)]
    for job in jobs:
        door.node.kill_off(job)

    def listed() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor: str | None = ""
        while cursor is not None:
            query = f"queue={queue}&limit=3" + (f"&cursor={cursor}" if cursor else "")
            page = door.http.get(f"/api/v1/dead-letters?{query}").json()
            found += page["dead_letters"]
            cursor = page["next_cursor"]
        return found

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
    statuses: list[int] = []
    path = f"/api/v1/dead-letters/{job}/replay"
    threads = [
        threading.Thread(target=lambda: statuses.append(door.http.post(path).status_code)) for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
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


# The cluster.


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


def test_health_and_metrics(door: Door) -> None:
    assert door.http.get("/livez").json()["status"] == "alive"
    ready = door.http.get("/readyz")
    assert (ready.status_code, ready.json()["status"], ready.json()["node"]) == (200, "ready", "node-1")
    door.node.keep_house()
    door.submit()
    text = door.http.get("/metrics").text
    assert 'mutirao_jobs{state="queued"}' in text
    assert "mutirao_store_up 1.0" in text
    assert 'mutirao_http_requests_total{method="POST",route="/api/v1/jobs",status="201"}' in text


def test_series_do_not_grow_with_paths_methods_or_names(door: Door) -> None:
    def series() -> int:
        return len([line for line in door.http.get("/metrics").text.splitlines() if not line.startswith("#")])

    def wander() -> None:
        for _ in range(20):
            door.http.get(f"/{uuid4()}")
            door.http.request(f"M{uuid4().hex[:8].upper()}", "/api/v1/jobs")
            door.http.get(f"/api/v1/jobs/{uuid4()}")
            door.submit(queue=f"q{uuid4().hex}")

    series()
    wander()
    before = series()
    wander()
    assert series() == before


# Who may ask.


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", ""])
def test_an_unknown_host_is_turned_away(door: Door, host: str) -> None:
    for path in ("/", "/api/v1/nodes", "/readyz", "/metrics", "/nothing"):
        assert door.http.get(path, headers={"Host": host}).status_code == 421
    assert door.http.post("/api/v1/jobs", json=ECHO, headers={"Host": host}).status_code == 421
    assert door.http.get("/livez", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:8080"])
def test_a_known_host_is_answered(door: Door, host: str) -> None:
    assert door.http.get("/api/v1/nodes", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_a_page_of_another_site_changes_nothing(door: Door, headers: dict[str, str]) -> None:
    job = door.submit()
    assert door.http.post(f"/api/v1/jobs/{job}/cancel", headers=headers).status_code == 403
    assert door.http.post("/api/v1/jobs", json=ECHO, headers=headers).status_code == 403
    assert door.job(job)["state"] == "queued"
    same = {"Origin": door.url}
    assert door.http.post(f"/api/v1/jobs/{job}/cancel", headers=same).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("DELETE", "/api/v1/jobs", 405), ("GET", "/api/v1/jobs/batch", 405)],
)
def test_every_error_is_a_problem(door: Door, method: str, path: str, status: int) -> None:
    response = door.http.request(method, path)
    assert response.status_code == status
    assert response.json()["status"] == status
    assert response.headers["Content-Type"] == "application/problem+json"


def test_a_token_is_asked_for_where_one_is_set(tmp_path: Path, postgres_dsn: str, redis_url: str) -> None:
    with open_door(tmp_path, postgres_dsn, redis_url, api_token="s3cret-token") as door:
        assert door.http.get("/api/v1/nodes").status_code == 401
        wrong = {"Authorization": "Bearer s3cret-tokem"}
        answer = door.http.post("/api/v1/jobs", json=ECHO, headers=wrong)
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert door.count() == 0
        right = {"Authorization": "Bearer s3cret-token"}
        assert door.http.post("/api/v1/jobs", json=ECHO, headers=right).status_code == 201
        for path in ("/livez", "/readyz", "/metrics", "/"):
            assert door.http.get(path).status_code == 200


# Without a store.


def test_without_redis_everything_works(tmp_path: Path, postgres_dsn: str) -> None:
    """I10: Redis away costs a wake-up, never a request."""
    with open_door(tmp_path, postgres_dsn, f"unix://{tmp_path}/nowhere.sock") as door:
        job = door.submit()
        assert door.http.post(f"/api/v1/jobs/{job}/cancel").status_code == 200
        ready = door.http.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
        assert ready.json()["dependencies"]["redis"]["ok"] is False
        assert ready.json()["dependencies"]["redis"]["detail"]


def test_without_postgres_the_answer_is_503_and_all_is_well_again_afterwards(
    tmp_path: Path, database_server: Any, postgres_dsn: str, redis_url: str
) -> None:
    with open_door(tmp_path, postgres_dsn, redis_url) as door:
        door.submit()
        database_server.postgres.stop()
        try:
            for response in (
                door.http.post("/api/v1/jobs", json=ECHO),
                door.http.get("/api/v1/jobs"),
                door.http.get("/"),
                door.http.get("/readyz"),
            ):
                assert response.status_code == 503
                assert int(response.headers["Retry-After"]) > 0
            assert door.http.get("/readyz").json()["dependencies"]["postgres"]["ok"] is False
            assert door.http.get("/livez").status_code == 200
            assert "mutirao_store_up 0.0" in door.http.get("/metrics").text
        finally:
            database_server.postgres.start()
        until(lambda: door.http.get("/readyz").status_code == 200, 30, "ready again")
        assert door.submit()


def test_a_frozen_postgres_is_noticed_and_named(
    tmp_path: Path, database_server: Any, postgres_dsn: str, redis_url: str
) -> None:
    import psutil

    with open_door(tmp_path, postgres_dsn, redis_url) as door:
        assert door.http.get("/readyz").status_code == 200
        server = psutil.Process(database_server.postgres.process.pid)
        frozen = [server, *server.children(recursive=True)]
        for process in frozen:
            process.suspend()
        try:
            ready = door.http.get("/readyz")
            assert ready.status_code == 503
            assert "did not answer" in ready.json()["dependencies"]["postgres"]["detail"]
            assert door.http.get("/livez").status_code == 200
        finally:
            for process in frozen:
                process.resume()
        until(lambda: door.http.get("/readyz").status_code == 200, 30, "ready again")


def test_a_terminated_connection_costs_no_request(
    tmp_path: Path, database_server: Any, postgres_dsn: str, redis_url: str
) -> None:
    import psycopg

    with open_door(tmp_path, postgres_dsn, redis_url) as door:
        door.submit()
        with psycopg.connect(database_server.superuser_dsn(postgres_dsn), autocommit=True) as connection:
            ended = connection.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE application_name LIKE 'mutirao-web%'"
            ).fetchone()
        assert ended is not None
        assert ended[0] >= 1
        assert door.submit()
