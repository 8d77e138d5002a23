"""The command line for many: files of jobs, waiting, bulk decisions, the audit log, handlers, completion."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mutirao.domain.job import Outcome
from mutirao.tail import Output
from tests.support.command import MUTIRAO, ok, run
from tests.support.door import Door, open_door
from tests.support.waiting import until


@pytest.fixture(scope="module")
def door(
    database_server: Any, migrated_template: str, redis_server: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Door]:
    dsn = database_server.create(migrated_template)
    with open_door(tmp_path_factory.mktemp("cli-many"), dsn, redis_server.url) as opened:
        yield opened
    database_server.drop(dsn)


@pytest.fixture
def queue(door: Door) -> Iterator[str]:
    """A queue of the test's own, and nothing left before the next test's jobs."""
    yield f"q{uuid4().hex[:8]}"
    with door.node.database.transaction() as tx:
        tx.execute("TRUNCATE jobs")


@pytest.fixture
def letters(door: Door, queue: str) -> list[str]:
    """Three dead letters in the queue, the last one to die first."""
    jobs = [door.submit(queue=queue, max_retries=0) for _ in range(3)]
    for job in jobs:
        door.node.kill_off(job)
    return jobs[::-1]


def line(number: object, **fields: object) -> str:
    return json.dumps({"handler": "echo", "payload": {"message": number}, **fields})


# Files of jobs


def test_a_file_of_jobs_is_submitted_in_order_and_as_it_is_written(door: Door, tmp_path: Path) -> None:
    file = tmp_path / "jobs.jsonl"
    lines = [line(n) for n in range(1200)]
    lines[7] = '{"handler": "echo", "payload": {"message": [9007199254740993, 1.10]}}'
    file.write_text("\n\n".join(lines))
    done = run(door, "submit", "--file", str(file))
    assert done.returncode == 0, done.stderr
    ids = done.stdout.split()
    assert len(set(ids)) == 1200
    assert "[9007199254740993, 1.10]" in ok(door, "jobs", "show", ids[7], "--json")
    assert door.job(ids[1199])["payload"] == {"message": 1199}
    assert "1200 jobs submitted" in done.stderr


def test_a_file_under_a_key_may_be_submitted_again(door: Door, queue: str) -> None:
    key, text = str(uuid4()), "\n".join(line(n, queue=queue) for n in range(3))
    first = ok(door, "submit", "--file", "-", "--key", key, stdin=text)
    again = ok(door, "submit", "--file", "-", "--key", key, "--json", stdin=text)
    assert [json.loads(job)["id"] for job in again.splitlines()] == first.split()
    assert door.job(first.split()[2])["idempotency_key"] == f"{key}-3"


@pytest.mark.parametrize(
    ("third", "said"),
    [
        ("{", "line 3: is not a JSON object"),
        ("[]", "line 3: is not a JSON object"),
        ('{"handler": "sleep", "payload": {"seconds": "x"}}', "line 3: payload.seconds: "),
        ("{}", "line 3: handler: is required"),
    ],
)
def test_a_line_that_is_refused_is_named_and_nothing_of_its_batch_is_stored(
    door: Door, third: str, said: str
) -> None:
    before = door.count()
    done = run(door, "submit", "--file", "-", stdin=f"{line(1)}\n{line(2)}\n{third}\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "0 jobs submitted" in done.stderr
    assert door.count() == before


def test_a_pipe_is_read_once(door: Door) -> None:
    command = f"{' '.join(MUTIRAO)} submit --url {door.url} --file <(echo '{line(1)}')"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert door.job(done.stdout.strip())["payload"] == {"message": 1}, done.stderr


def test_what_belongs_into_the_lines_is_refused_beside_a_file(door: Door) -> None:
    for arguments in (["--priority", "1"], ["--payload", "{}"], ["echo"]):
        assert run(door, "submit", "--file", "-", *arguments).returncode == 2


def test_a_file_is_waited_for(door: Door, queue: str) -> None:
    text = "\n".join(line(n, queue=queue, max_retries=0) for n in range(2))
    process = subprocess.Popen(
        [*MUTIRAO, "submit", "--file", "-", "--wait", "--timeout", "30", "--url", door.url],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.close()
    found = until(lambda: _two(door, queue), 20, "both are there")
    door.node.kill_off(found[0])
    door.node.end(found[1], door.node.start(found[1]), Outcome.SUCCEEDED, result="1")
    assert process.wait(30) == 1
    assert process.stdout is not None and process.stderr is not None
    assert sorted(process.stdout.read().splitlines()) == sorted([f"{found[0]} dead", f"{found[1]} succeeded"])
    assert "1 dead" in process.stderr.read()


def _two(door: Door, queue: str) -> list[str] | None:
    found = [job["id"] for job in door.http.get(f"/api/v1/jobs?queue={queue}").json()["jobs"]]
    return found if len(found) == 2 else None


# Waiting, output


def test_jobs_are_waited_for_by_their_ids(door: Door, queue: str) -> None:
    jobs = [door.submit(queue=queue) for _ in range(3)]
    for job in jobs:
        door.node.end(job, door.node.start(job), Outcome.SUCCEEDED, result="1")
    told = ok(door, "jobs", "wait", *jobs)
    assert sorted(told.splitlines()) == sorted(f"{job} succeeded" for job in jobs)
    by_pipe = ok(door, "jobs", "wait", "-", "--json", stdin="\n".join(jobs))
    assert {json.loads(text)["id"] for text in by_pipe.splitlines()} == set(jobs)
    assert run(door, "jobs", "wait", str(uuid4())).returncode == 4
    assert run(door, "jobs", "wait", "nonsense").returncode == 2
    late = run(door, "jobs", "wait", door.submit(queue=queue), "--timeout", "0.1")
    assert late.returncode == 1
    assert "not ended" in late.stderr


def test_an_interrupted_wait_exits_with_130(door: Door, queue: str) -> None:
    process = subprocess.Popen(
        [*MUTIRAO, "jobs", "wait", door.submit(queue=queue), door.submit(queue=queue), "--url", door.url],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    before = _asked(door)
    until(lambda: _asked(door) > before, 20, "it waits")
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()


def _asked(door: Door) -> float:
    """How often a client has looked at many jobs."""
    text = door.http.get("/metrics").text
    counts = [
        row for row in text.splitlines() if row.startswith("mutirao_http_requests") and "summaries" in row
    ]
    return sum(float(row.split()[-1]) for row in counts)


def test_the_output_of_an_attempt_is_printed(door: Door, queue: str) -> None:
    job = door.submit(queue=queue)
    assert run(door, "jobs", "output", job).returncode == 4
    first = door.node.start(job)
    door.node.end(job, first, Outcome.FAILED, error="{}", delay=0.0, output=Output(b"erste\x1b[1m\n", 9))
    done = run(door, "jobs", "output", job, "--attempt", "1")
    assert (done.returncode, done.stdout) == (0, "erste\x1b[1m\n")
    assert "9 bytes" in done.stderr
    assert json.loads(ok(door, "jobs", "output", job, "--json"))["attempt"] == 1
    assert run(door, "jobs", "output", job, "--attempt", "2").returncode == 4


def test_lists_take_several_states_and_times(door: Door, queue: str) -> None:
    kept, gone = door.submit(queue=queue), door.submit(queue=queue)
    ok(door, "jobs", "cancel", gone)
    both = ok(door, "jobs", "list", "--queue", queue, "--state", "queued", "--state", "cancelled")
    assert kept in both and gone in both
    assert gone not in ok(door, "jobs", "list", "--queue", queue, "--state", "queued")
    later = ["--created-after", "2100-01-01T00:00:00Z"]
    assert ok(door, "jobs", "list", "--queue", queue, *later) == "no jobs\n"
    assert kept in ok(door, "jobs", "list", "--queue", queue, "--created-before", "2100-01-01T00:00:00+01:00")
    naive = run(door, "jobs", "list", "--created-after", "2100-01-01T00:00:00")
    assert naive.returncode == 2
    assert "needs an offset" in naive.stderr


# Dead letters


def test_all_that_fit_are_replayed_once(door: Door, queue: str, letters: list[str]) -> None:
    done = run(door, "dead-letter", "replay", "--queue", queue, "--error-type", "E", "--all")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{job} queued" for job in letters]
    assert "3 replayed" in done.stderr
    again = run(door, "dead-letter", "replay", "--queue", queue, "--all")
    assert (again.returncode, again.stdout) == (0, "")
    assert "no dead letters" in again.stderr


def test_several_are_decided_by_their_ids(door: Door, queue: str, letters: list[str]) -> None:
    ok(door, "dead-letter", "discard", letters[0])
    done = run(door, "dead-letter", "discard", *letters)
    assert done.returncode == 5
    assert "2 discarded, 1 were no dead letters any more" in done.stderr
    assert {line.split()[0] for line in done.stdout.splitlines()} == set(letters[1:])


def test_a_decision_says_what_it_is_about(door: Door, queue: str, letters: list[str]) -> None:
    assert run(door, "dead-letter", "replay").returncode == 2
    assert run(door, "dead-letter", "replay", letters[0], "--all").returncode == 2
    assert run(door, "dead-letter", "replay", letters[0], "--queue", queue).returncode == 2
    assert (
        json.loads(ok(door, "dead-letter", "list", "--queue", queue, "--json"))["dead_letters"][0]["id"]
        == letters[0]
    )
    assert "no dead letters" in ok(door, "dead-letter", "list", "--queue", queue, "--error-type", "F")


def test_on_a_terminal_it_asks_first(door: Door, queue: str, letters: list[str]) -> None:
    import pty

    for answer, code, left in ((b"n\n", 1, 3), (b"y\n", 0, 0)):
        ours, theirs = pty.openpty()
        with os.fdopen(ours, "r+b", buffering=0) as terminal:
            process = subprocess.Popen(
                [*MUTIRAO, "dead-letter", "discard", "--queue", queue, "--all", "--url", door.url],
                stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
            os.close(theirs)
            terminal.write(answer)
            assert process.wait(30) == code
            assert process.stderr is not None
            assert b"Discard 3 dead letters?" in process.stderr.read()
        shown = json.loads(ok(door, "dead-letter", "list", "--queue", queue, "--json"))
        assert len(shown["dead_letters"]) == left


# The audit log, handlers


def test_the_audit_log_is_filtered(door: Door, letters: list[str]) -> None:
    told = ok(door, "audit", "--job", letters[0])
    assert "submitted" in told and letters[0] in told
    found = json.loads(ok(door, "audit", "--event", "submitted", "--limit", "3", "--json"))
    assert [entry["job_id"] for entry in found["entries"]] == letters
    rest = json.loads(ok(door, "audit", "--cursor", found["next_cursor"], "--limit", "1", "--json"))
    assert rest["entries"][0]["id"] < found["entries"][-1]["id"]


def test_the_audit_log_is_followed(door: Door, queue: str) -> None:
    process = subprocess.Popen(
        [*MUTIRAO, "audit", "--event", "submitted", "--limit", "1", "--follow", "--json", "--url", door.url],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    first = door.submit(queue=queue)
    seen: list[str] = []
    assert process.stdout is not None
    for text in process.stdout:
        seen.append(json.loads(text)["job_id"])
        if seen[-1] == first:
            break
    second = door.submit(queue=queue)
    assert json.loads(process.stdout.readline())["job_id"] == second
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130


def test_handlers_are_listed_and_shown(door: Door) -> None:
    told = ok(door, "handlers", "list")
    assert "particular" in told and "node-1" in told
    shown = ok(door, "handlers", "show", "particular")
    assert "Takes integers by name." in shown
    assert '"additionalProperties"' in shown
    assert json.loads(ok(door, "handlers", "show", "particular", "--json"))["defaults"]["timeout"] == 7.5
    assert run(door, "handlers", "show", "nobody").returncode == 4


def test_a_directory_of_handlers_is_checked_and_tried_without_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "double.py").write_text(
        "from mutirao.contract import Payload, handler\n\n\nclass Number(Payload):\n    n: int\n\n\n"
        '@handler("double")\ndef double(payload: Number) -> int:\n    """Doubles."""\n    print("hello")\n'
        "    return payload.n * 2 // (payload.n != 0)\n"
    )
    assert "double" in ok(None, "handlers", "check", str(tmp_path))
    there = ["handlers", "run", "double", "--handlers", str(tmp_path)]
    done = run(None, *there, '{"n": 4611686018427387905}')
    assert (done.returncode, done.stdout) == (0, "9223372036854775810\n")
    assert "hello" in done.stderr
    refused = run(None, *there, '{"m": 1}')
    assert (refused.returncode, refused.stderr) == (
        2, "mutirao: payload.m: is not a known field; payload.n: is required\n"
    )  # fmt: skip
    failed = run(None, *there, '{"n": 0}')
    assert failed.returncode == 1
    assert "the attempt failed: ZeroDivisionError" in failed.stderr
    (tmp_path / "broken.py").write_text("def (\n")
    wrong = run(None, "handlers", "check", str(tmp_path))
    assert wrong.returncode == 2
    assert "broken.py" in wrong.stderr
    (tmp_path / "double.py").chmod(0o664)
    assert f"; chmod go-w {tmp_path / 'double.py'}" in run(None, "handlers", "check", str(tmp_path)).stdout


# For scripts


def test_errors_are_problem_json_where_json_is_wanted(door: Door) -> None:
    done = run(door, "submit", "sleep", '{"second": 1}', "--json")
    told = json.loads(done.stderr)
    assert (done.returncode, done.stdout, told["exit_code"]) == (2, "", 2)
    assert {"field": "payload.seconds", "message": "is required"} in told["errors"]
    away = run(None, "nodes", "--url", "http://127.0.0.1:1,http://127.0.0.1:2", "--json")
    told = json.loads(away.stderr)
    assert (away.returncode, told["exit_code"]) == (3, 3)
    assert "127.0.0.1:1" in told["detail"] and "127.0.0.1:2" in told["detail"]


def test_a_node_that_is_down_is_passed_over(door: Door) -> None:
    assert "node-1" in ok(None, "nodes", "--url", f"http://127.0.0.1:1,{door.url}")


def test_a_reader_that_leaves_is_no_traceback(door: Door, tmp_path: Path) -> None:
    file = tmp_path / "jobs.jsonl"
    file.write_text("\n".join(line(n) for n in range(3000)))
    command = f"{' '.join(MUTIRAO)} submit --file {file} --url {door.url} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert len(done.stdout.splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str) -> None:
    assert "_MUTIRAO_COMPLETE" in ok(None, "completion", shell)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("mutirao dead", "plain,dead-letter"),
        ("mutirao jobs list --state suc", "plain,succeeded"),
        ("mutirao submit part", "plain,particular"),
        ("mutirao handlers show part", "plain,particular"),
    ],
)
def test_a_shell_completes_verbs_states_and_handlers(door: Door, words: str, offered: str) -> None:
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = run(door, _MUTIRAO_COMPLETE="bash_complete", **asked)
    assert done.stdout.strip() == offered, done.stderr


def test_completion_is_silent_without_a_cluster() -> None:
    asked = {"COMP_WORDS": "mutirao submit part", "COMP_CWORD": "2", "MUTIRAO_URL": "http://127.0.0.1:1"}
    done = run(None, _MUTIRAO_COMPLETE="bash_complete", **asked)
    assert (done.stdout.strip(), done.stderr) == ("", "")
