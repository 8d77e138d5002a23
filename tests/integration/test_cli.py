"""The verbs that speak REST, as processes of their own against a real web server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mutirao.domain.job import NewJob, Outcome
from mutirao.store.jobs import Jobs
from tests.support.command import ok, run
from tests.support.door import Door, open_door, toml
from tests.support.waiting import until


@pytest.fixture(scope="module")
def door(
    database_server: Any, migrated_template: str, redis_server: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Door]:
    dsn = database_server.create(migrated_template)
    with open_door(tmp_path_factory.mktemp("cli"), dsn, redis_server.url) as opened:
        yield opened
    database_server.drop(dsn)


def test_submit_prints_the_id(door: Door) -> None:
    job = ok(door, "submit", "echo", "--payload", '{"message": "hi"}').strip()
    assert door.job(job)["payload"] == {"message": "hi"}


def test_a_payload_comes_from_a_file_or_from_standard_input_unchanged(door: Door, tmp_path: Path) -> None:
    file = tmp_path / "payload.json"
    file.write_text('{"message": 9007199254740993}')
    by_file = ok(door, "submit", "echo", "--payload", f"@{file}").strip()
    by_pipe = ok(door, "submit", "echo", "--payload", "-", stdin='{"message": 1.10}').strip()
    assert '"message": 9007199254740993' in ok(door, "jobs", "show", by_file, "--json")
    assert '"message": 1.10' in ok(door, "jobs", "show", by_pipe, "--json")


def test_every_option_of_submit_arrives(door: Door) -> None:
    key = str(uuid4())
    said = [
        "--queue",
        "q1",
        "--priority",
        "0",
        "--max-retries",
        "0",
        "--backoff-base",
        "0",
        "--backoff-cap",
        "7",
    ]
    said += ["--job-timeout", "1.5", "--run-at", "2050-01-01T00:00:00Z", "--key", key]
    job = door.job(ok(door, "submit", "sleep", "--payload", '{"seconds": 1}', *said).strip())
    assert (job["queue"], job["priority"], job["max_retries"], job["timeout"]) == ("q1", 0, 0, 1.5)
    assert job["backoff"] == {"base": 0.0, "cap": 7.0}
    assert (job["run_at"], job["idempotency_key"]) == ("2050-01-01T00:00:00Z", key)


@pytest.mark.parametrize(
    ("outcome", "code", "shown"),
    [
        (Outcome.SUCCEEDED, 0, "succeeded"),
        (Outcome.FAILED, 1, "no luck"),
        (Outcome.CANCELLED, 1, "cancelled"),
    ],
)
def test_wait_ends_with_the_job(door: Door, outcome: Outcome, code: int, shown: str) -> None:
    queue, results = f"q{uuid4().hex}", []
    arguments = ["submit", "echo", "--payload", '{"message": 1}', "--queue", queue, "--max-retries", "0"]
    thread = threading.Thread(
        target=lambda: results.append(run(door, *arguments, "--wait", "--timeout", "30"))
    )
    thread.start()
    found = until(lambda: door.http.get(f"/api/v1/jobs?queue={queue}").json()["jobs"], 20, "the job is there")
    job = found[0]["id"]
    attempt = door.node.start(job)
    if outcome is Outcome.CANCELLED:
        ok(door, "jobs", "cancel", job)
    door.node.end(job, attempt, outcome, result="1", error='{"type": "E", "message": "no luck"}')
    thread.join(30)
    assert results[0].returncode == code, results[0].stderr
    assert shown in results[0].stdout


def test_wait_is_bounded(door: Door) -> None:
    done = run(door, "submit", "echo", "--payload", '{"message": 1}', "--wait", "--timeout", "0.1")
    assert done.returncode == 1
    assert "still queued" in done.stderr


def test_jobs_are_listed_shown_and_cancelled(door: Door) -> None:
    queue = f"q{uuid4().hex[:8]}"
    jobs = [door.submit(queue=queue) for _ in range(3)]
    listed = ok(door, "jobs", "list", "--queue", queue, "--state", "queued")
    assert [job in listed for job in jobs] == [True] * 3
    first = json.loads(ok(door, "jobs", "list", "--queue", queue, "--limit", "2", "--json"))
    assert [job["id"] for job in first["jobs"]] == jobs[:0:-1]
    rest = ok(door, "jobs", "list", "--queue", queue, "--cursor", first["next_cursor"])
    assert jobs[0] in rest
    assert jobs[1] not in rest
    shown = ok(door, "jobs", "show", jobs[0])
    assert "submitted" in shown
    assert '{"message": "hello"}' in shown
    assert ok(door, "jobs", "cancel", jobs[0]) == f"{jobs[0]} cancelled\n"
    assert door.job(jobs[0])["state"] == "cancelled"


def test_a_job_that_no_live_node_serves_says_so(door: Door) -> None:
    (left,) = Jobs(door.node.database).submit([NewJob(uuid4(), "echo", "{}")])
    assert "no live node serves its contract" in ok(door, "jobs", "show", str(left.id))
    assert "no live node" not in ok(door, "jobs", "show", door.submit())


def test_a_running_job_is_cancelling(door: Door) -> None:
    job = door.submit()
    attempt = door.node.start(job)
    assert ok(door, "jobs", "cancel", job) == f"{job} cancelling\n"
    assert "cancelling" in ok(door, "jobs", "show", job)
    door.node.end(job, attempt, Outcome.CANCELLED)


def test_dead_letters_are_listed_shown_replayed_and_discarded(door: Door) -> None:
    queue = f"q{uuid4().hex[:8]}"
    first, second = (door.submit(queue=queue, max_retries=0) for _ in range(2))
    for job in (first, second):
        door.node.kill_off(job)
    listed = ok(door, "dead-letter", "list", "--queue", queue)
    assert first in listed
    assert "no luck" in listed
    assert "no luck" in ok(door, "dead-letter", "show", first)
    assert ok(door, "dead-letter", "replay", first) == f"{first} queued\n"
    assert ok(door, "dead-letter", "discard", second) == f"{second} discarded\n"
    assert json.loads(ok(door, "dead-letter", "list", "--queue", queue, "--json"))["dead_letters"] == []
    assert run(door, "dead-letter", "replay", first).returncode == 5
    assert run(door, "dead-letter", "show", first).returncode == 4


def test_nodes(door: Door) -> None:
    text = ok(door, "nodes")
    assert "node-1" in text
    assert "coordinator" in text
    assert json.loads(ok(door, "nodes", "--json"))["nodes"][0]["role"] == "coordinator"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["submit", "ecko"], 2, "did you mean `echo`?"),
        (["submit", "sleep", "--payload", '{"second": 1}'], 2, "payload.seconds: is required"),
        (["submit", "echo", "--payload", "{"], 2, "payload: is not JSON"),
        (["submit", "echo", "--payload", "@/nowhere"], 2, "/nowhere"),
        (["submit", "echo", "--priority", "10"], 2, "--priority"),
        (["jobs", "show", "nonsense"], 2, "ID"),
        (["jobs", "show", str(uuid4())], 4, "no job has the id"),
        (["jobs", "list", "--state", "sleeping"], 2, "--state"),
        (["dead-letter", "replay", str(uuid4())], 4, "no job has the id"),
        (["nodes", "--url", "http://127.0.0.1:1"], 3, "does not answer"),
        (["nodes", "--url", "nonsense"], 2, "http://"),
    ],
)
def test_errors_say_what_to_do_and_exit_as_documented(
    door: Door, arguments: list[str], code: int, said: str
) -> None:
    done = run(door, *arguments)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_url_must_be_named_or_default(door: Door) -> None:
    done = run(None, "nodes", "--url", door.url)
    assert done.returncode == 0


def test_a_text_cannot_control_the_terminal(door: Door) -> None:
    job = door.submit(payload={"message": "\x1b[31mred [bold]x[/bold]"}, max_retries=0)
    attempt = door.node.start(job)
    door.node.end(job, attempt, Outcome.FAILED, error='{"type": "E", "message": "\\u001b[2J[red]gone[/red]"}')
    for text in (ok(door, "jobs", "show", job), ok(door, "dead-letter", "list")):
        assert "\x1b" not in text
        assert "[red]gone[/red]" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["submit"],
        ["jobs", "list"],
        ["jobs", "show"],
        ["jobs", "cancel"],
        ["dead-letter", "list"],
        ["dead-letter", "show"],
        ["dead-letter", "replay"],
        ["dead-letter", "discard"],
        ["nodes"],
        ["web"],
    ],
    ids=" ".join,
)
def test_help_has_an_example(arguments: list[str]) -> None:
    done = run(None, *arguments, "--help")
    assert done.returncode == 0
    assert f"mutirao {' '.join(arguments)}" in done.stdout.split("Example", 1)[1]


def test_the_token_is_sent(tmp_path: Path, postgres_dsn: str, redis_url: str) -> None:
    with open_door(tmp_path, postgres_dsn, redis_url, api_token="a-token") as door:
        assert run(door, "nodes").returncode == 2
        assert run(door, "nodes", MUTIRAO_TOKEN="a-token").returncode == 0


def test_a_taken_port_is_said_and_nothing_else_happens(door: Door, tmp_path: Path) -> None:
    config = tmp_path / "mutirao.toml"
    config.write_text(toml(door.settings))
    config.chmod(0o600)
    done = run(None, "web", "--config", str(config))
    assert done.returncode == 5
    assert f"port {door.settings['web_port']} on 127.0.0.1 is taken" in done.stderr
    assert "Traceback" not in done.stderr
    assert door.http.get("/livez").status_code == 200


def test_the_web_server_answers_on_ipv6(tmp_path: Path, postgres_dsn: str, redis_url: str) -> None:
    import httpx

    with open_door(tmp_path, postgres_dsn, redis_url, web_host="::1") as door:
        assert httpx.get(f"{door.url}/readyz", trust_env=False).status_code == 200


def test_a_submission_repeated_after_a_lost_answer_is_one_job(door: Door) -> None:
    """The client names each submission, so trying again is safe (FAILURES: Input)."""
    import socket

    from mutirao.client import Client

    host, port = door.url.removeprefix("http://").split(":")
    with socket.socket() as front:
        front.bind(("127.0.0.1", 0))
        front.listen()

        def swallow_the_first_answer() -> None:
            for number in range(2):
                connection, _ = front.accept()
                with connection, socket.create_connection((host, int(port))) as back:
                    request = b""
                    while b"}}" not in request:
                        request += connection.recv(65536)
                    back.sendall(
                        request.replace(b"Host: 127.0.0.1:", b"Connection: close\r\nHost: 127.0.0.1:")
                    )
                    answer = b"".join(iter(lambda: back.recv(65536), b""))
                    if number:
                        connection.sendall(answer)

        thread = threading.Thread(target=swallow_the_first_answer)
        thread.start()
        before = door.count()
        with Client(f"http://127.0.0.1:{front.getsockname()[1]}") as client:
            answer = client.submit("echo", {"message": {"a": 1}})
        thread.join(20)
    assert answer.created is False
    assert door.count() == before + 1
