"""`mutirao.Client` over real web servers that die, freeze, lose answers and lose their database."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from mutirao import Client
from mutirao.client import Job, JobFailed, Request, WaitTimeout
from mutirao.client.rest import Rest
from mutirao.domain.job import Outcome
from mutirao.errors import Conflict, InvalidInput, NotFound, Unavailable
from tests.support.door import Door, free_port, open_door, toml
from tests.support.relay import Relay, relay
from tests.support.waiting import until

NOWHERE = "http://127.0.0.1:1"
BIG = 123456789012345678901234567890


@pytest.fixture(scope="module")
def door(
    database_server: Any, migrated_template: str, redis_server: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Door]:
    dsn = database_server.create(migrated_template)
    with open_door(tmp_path_factory.mktemp("client"), dsn, redis_server.url) as opened:
        yield opened
    database_server.drop(dsn)


@pytest.fixture(autouse=True)
def an_empty_queue(door: Door) -> Iterator[None]:
    """What one test leaves queued must not stand before the next one's jobs."""
    yield
    with door.node.database.transaction() as tx:
        tx.execute("TRUNCATE jobs")


@pytest.fixture
def client(door: Door) -> Iterator[Client]:
    with Client(door.url) as client:
        yield client


@pytest.fixture
def front(door: Door) -> Iterator[Relay]:
    with relay(door.url) as front:
        yield front


@contextmanager
def second_door(door: Door, directory: Path, **settings: object) -> Iterator[tuple[str, int]]:
    """Another web server on the same database, whose process group may be killed: its URL and pid."""
    port = free_port()
    config = directory / "mutirao.toml"
    config.write_text(toml({**door.settings, "web_port": port, "node_name": "node-2", **settings}))
    config.chmod(0o600)
    process = subprocess.Popen(
        [sys.executable, "-m", "mutirao", "web", "--config", str(config)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        until(lambda: listens(port), 20, "the second web server listens")
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def listens(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def echoes(count: int) -> Iterator[dict[str, Any]]:
    return ({"handler": "echo", "payload": {"message": number}} for number in range(count))


def end(door: Door, job: UUID, outcome: Outcome, **values: Any) -> None:
    door.node.end(str(job), door.node.start(str(job)), outcome, **values)


# Nodes that die


def test_a_node_killed_in_the_middle_is_no_error_and_makes_no_duplicates(door: Door, tmp_path: Path) -> None:
    before = door.count()
    with second_door(door, tmp_path) as (url, pid), Client([url, door.url]) as client:

        def jobs() -> Iterator[dict[str, Any]]:
            for number, job in enumerate(echoes(1000)):
                if number == 500:
                    os.killpg(pid, signal.SIGKILL)
                yield job

        done = client.submit_many(jobs(), chunk=100)
        assert len({job.id for job in done}) == len(done) == 1000
        assert all(job.created for job in done)
        for number in (0, 499, 500, 999):
            assert client.job(done[number]).payload == {"message": number}
    assert door.count() == before + 1000


def test_a_frozen_node_is_passed_over(door: Door, tmp_path: Path) -> None:
    before = door.count()
    with second_door(door, tmp_path) as (url, pid), Client([url, door.url], timeout=4) as client:
        client.submit("echo", {"message": 1})
        os.killpg(pid, signal.SIGSTOP)
        client.submit("echo", {"message": 2})
        os.killpg(pid, signal.SIGCONT)
    assert door.count() == before + 2


def test_a_node_without_its_database_is_passed_over(door: Door, tmp_path: Path) -> None:
    settings = {"postgres": "postgresql://mutirao@127.0.0.1:1/nowhere"}
    with second_door(door, tmp_path, **settings) as (url, _), Client([url, door.url]) as client:
        assert client.submit("echo", {"message": 1}).created


def test_the_address_that_answered_is_asked_first_from_then_on(door: Door, front: Relay) -> None:
    with Client([NOWHERE, front.url, door.url]) as client:
        client.nodes()
        front.requests.clear()
        for _ in range(3):
            client.nodes()
        assert len(front.requests) == 3


def test_many_threads_share_a_client_and_a_dead_node(door: Door) -> None:
    with Client(f"{NOWHERE},{door.url}") as client, ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda n: client.submit("echo", {"message": n}), range(40)))
    assert len({job.id for job in done}) == 40


def test_nobody_there_names_every_address() -> None:
    with (
        Client([NOWHERE, "http://127.0.0.1:2"], timeout=0.5) as client,
        pytest.raises(Unavailable, match=r"127\.0\.0\.1:1.*127\.0\.0\.1:2") as caught,
    ):
        client.nodes()
    assert "MUTIRAO_URL" in caught.value.hint


def test_whoever_has_met_a_node_waits_for_its_restart(door: Door) -> None:
    told: list[Unavailable] = []
    with relay(door.url) as front:
        rest = Rest(front.url, timeout=20, refused=0.1, waiting=told.append)
        rest.nodes()
    with rest, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(rest.nodes)
        until(lambda: told, 10, "it says that nobody answers")
        with relay(door.url, front.port):
            assert answer.result(20)["nodes"]
    assert len(told) == 1
    with Rest(front.url, timeout=20, refused=0.1) as stranger, pytest.raises(Unavailable, match="refused"):
        stranger.nodes()


# Answers that are lost


def test_a_submission_whose_answers_are_lost_is_one_job(door: Door, front: Relay) -> None:
    before, front.lose = door.count(), 2
    with Client(front.url) as client:
        assert client.submit("echo", {"message": 1}).created is False
        front.lose = 1
        assert [job.created for job in client.submit_many(echoes(3))] == [False] * 3
    assert door.count() == before + 4


@pytest.mark.parametrize(("verb", "event"), [("replay", "replayed"), ("discard", "discarded")])
def test_a_decision_whose_answer_is_lost_is_made_once(
    door: Door, front: Relay, verb: str, event: str
) -> None:
    job = door.submit(max_retries=0)
    door.node.kill_off(job)
    with Client(front.url) as client:
        client.job(job)
        front.lose = 2
        assert str(getattr(client, verb)(job).id) == job
        assert [entry.event for entry in client.job(job).audit].count(event) == 1
        with pytest.raises(Conflict):
            getattr(client, verb)(job)


def test_a_replay_whose_answer_is_lost_does_not_replay_the_next_death(door: Door, front: Relay) -> None:
    job = door.submit(max_retries=0)
    door.node.kill_off(job)
    with Client(front.url) as client:
        client.job(job)
        thread = threading.Thread(target=lambda: client.replay(job))
        front.lose = 1000
        thread.start()
        until(lambda: door.job(job)["state"] == "queued", 10, "it is replayed")
        door.node.kill_off(job)
        front.lose = 0
        thread.join(20)
        assert [entry.event for entry in client.job(job).audit].count("replayed") == 1
    assert door.job(job)["state"] == "dead"


def test_a_cancel_whose_answer_is_lost_is_no_error(door: Door, front: Relay) -> None:
    job = door.submit()
    front.lose = 1
    with Client(front.url) as client:
        assert client.cancel(job).state == "cancelled"


# Jobs and their ends


def test_values_are_typed_and_integers_exact(door: Door, client: Client) -> None:
    job = client.submit("echo", {"message": BIG}, run_at=datetime(2050, 1, 1, tzinfo=UTC), priority=0)
    assert isinstance(job.id, UUID)
    found = client.job(job)
    assert isinstance(found, Job)
    assert (found.payload, found.priority) == ({"message": BIG}, 0)
    assert found.run_at == datetime(2050, 1, 1, tzinfo=UTC)


def test_a_result_is_what_the_handler_returned(door: Door, client: Client) -> None:
    job = client.submit("echo", {"message": 1})
    end(door, job.id, Outcome.SUCCEEDED, result=f'{{"n": {BIG}}}')
    assert client.result(job, timeout=20) == {"n": BIG}
    assert client.wait(job).attempts[0].outcome == "succeeded"


def test_a_job_that_died_has_no_result_but_an_error(door: Door, client: Client) -> None:
    job = client.submit("echo", {"message": 1}, max_retries=0)
    door.node.kill_off(str(job.id))
    with pytest.raises(JobFailed, match="E: no luck") as caught:
        client.result(job)
    assert caught.value.job.state == "dead"
    assert caught.value.error == {"type": "E", "message": "no luck"}


def test_a_job_that_goes_on_is_waited_for_no_longer_than_asked(client: Client) -> None:
    job = client.submit("echo", {"message": 1})
    with pytest.raises(WaitTimeout, match="queued"):
        client.wait(job, timeout=0.1)
    with pytest.raises(WaitTimeout, match="1 jobs have not ended"):
        client.wait_all([job], timeout=0.1)


def test_jobs_come_as_they_end_and_together_in_the_order_asked(door: Door, client: Client) -> None:
    jobs = client.submit_many(echoes(120))
    last, *others = jobs[::-1]
    stream = client.stream(jobs, timeout=60)
    end(door, last.id, Outcome.SUCCEEDED, result="1")
    assert next(stream).id == last.id
    for job in others:
        client.cancel(job)
    assert {job.state for job in stream} == {"cancelled"}
    assert [job.id for job in client.wait_all(jobs)] == [job.id for job in jobs]


def test_a_stream_may_follow_jobs_without_end(door: Door, client: Client) -> None:
    def jobs() -> Iterator[UUID]:
        for number in itertools.count():
            job = client.submit("echo", {"message": number})
            client.cancel(job)
            yield job.id

    ended = list(itertools.islice(client.stream(jobs()), 3))
    assert {job.state for job in ended} == {"cancelled"}


def test_jobs_nobody_has_named_are_followed_from_their_submission_to_their_end(
    door: Door, client: Client
) -> None:
    queue = f"q{uuid4().hex[:8]}"
    client.submit("echo", {"message": "before"}, queue=queue)
    changes = client.follow(queue=queue, timeout=60)
    client.submit("echo", {"message": "elsewhere"})
    jobs = client.submit_many({**job, "queue": queue} for job in echoes(130))
    seen = [next(changes) for _ in jobs]
    assert [(job.id, job.state) for job in seen] == [(job.id, "queued") for job in jobs]
    end(door, jobs[7].id, Outcome.SUCCEEDED, result="1")
    last = next(changes)
    assert (last.id, last.state) == (jobs[7].id, "succeeded")
    assert list(client.follow(queue=queue, timeout=0.05)) == []


def test_a_hundred_jobs_are_asked_for_at_a_time(door: Door) -> None:
    job = door.submit()
    ids = [job, *(str(uuid4()) for _ in range(100))]
    whole = door.http.get("/api/v1/jobs/summaries", params={"ids": ",".join(ids[:100])})
    assert [one["id"] for one in whole.json()["jobs"]] == [job]
    for wrong in (",".join(ids), "", "nonsense"):
        refused = door.http.get("/api/v1/jobs/summaries", params={"ids": wrong})
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["field"].startswith("ids")


@pytest.mark.parametrize("verb", ["replay", "discard"])
def test_a_death_is_named_by_its_attempt(door: Door, verb: str) -> None:
    job = door.submit(max_retries=0)
    door.node.kill_off(job)
    path = f"/api/v1/dead-letters/{job}/{verb}"
    answers = [door.http.post(path, params={"attempt": attempt}) for attempt in ("0", "x", "2", "1", "1")]
    assert [answer.status_code for answer in answers] == [422, 422, 409, 200, 409]


def test_a_job_there_is_not_is_not_waited_for(client: Client) -> None:
    with pytest.raises(NotFound, match="no job has the id"):
        client.wait_all([uuid4()], timeout=5)


def test_every_job_that_fits_is_listed_page_by_page(client: Client) -> None:
    queue = f"q{uuid4().hex[:8]}"
    done = client.submit_many({**job, "queue": queue} for job in echoes(510))
    listed = [job.id for job in client.jobs(queue=queue, state=["queued", "running"])]
    assert listed == sorted((job.id for job in done), reverse=True)


# What is refused


def test_a_refused_job_of_many_is_named_by_its_place_among_all(client: Client) -> None:
    jobs = [*echoes(25), Request(handler="sleep", payload={"seconds": "long"})]
    with pytest.raises(InvalidInput) as caught:
        client.submit_many(jobs, chunk=10)
    assert caught.value.field == "jobs.25.payload.seconds"
    assert caught.value.__notes__ == ["the 20 jobs before this batch are stored"]


def test_many_under_one_key_may_be_submitted_again(door: Door, client: Client) -> None:
    key, before = str(uuid4()), door.count()
    first = client.submit_many(echoes(7), chunk=3, idempotency_key=key)
    again = client.submit_many(echoes(9), chunk=4, idempotency_key=key)
    assert [job.id for job in again[:7]] == [job.id for job in first]
    assert [job.created for job in again] == [False] * 7 + [True] * 2
    assert door.count() == before + 9


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"payload": {"message": float("nan")}}, "payload"),
        ({"payload": {"message": {1, 2}}}, "payload"),
        ({"run_at": datetime(2030, 1, 1)}, "run_at"),
        ({"timeout": float("inf")}, "timeout"),
    ],
)
def test_what_cannot_be_sent_is_a_value_error_before_anything_is(values: dict[str, Any], field: str) -> None:
    with Client(NOWHERE) as client, pytest.raises(ValueError) as caught:
        client.submit("echo", **{"payload": {"message": 1}, **values})
    assert isinstance(caught.value, InvalidInput)
    assert caught.value.field == field


def test_what_a_server_refuses_names_the_field(client: Client) -> None:
    with pytest.raises(InvalidInput) as caught:
        client.submit("sleep", {"seconds": "long"})
    assert caught.value.field == "payload.seconds"
    with pytest.raises(InvalidInput, match="ecko"):
        client.submit("ecko")


def test_what_is_no_address_is_refused() -> None:
    for url in ("nonsense", "ftp://host", "http://"):
        with pytest.raises(InvalidInput) as caught:
            Client(url)
        assert caught.value.field == "url"


def test_the_cluster_is_told_of(door: Door, client: Client) -> None:
    assert client.nodes()[0].name == "node-1"
    assert {"echo", "anything"} <= {one.handler for one in client.handlers()}
    job = client.submit("echo", {"message": 1}, max_retries=0)
    door.node.kill_off(str(job.id))
    assert client.dead_letters(limit=1).items[0].id == job.id
    assert client.dead_letters(limit=1).items[0].error == {
        "type": "E",
        "message": "no luck",
    }
