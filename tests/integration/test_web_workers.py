"""Several web workers that come and go count as one: nothing is lost, doubled or left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mutirao.embedded.valkey import Valkey
from tests.integration.conftest import DatabaseServer
from tests.support.door import Door, free_port, open_door, toml
from tests.support.processes import children
from tests.support.waiting import until

WORKERS = 3
Series = tuple[str, frozenset[tuple[str, str]]]


@pytest.fixture(scope="module")
def door(
    tmp_path_factory: pytest.TempPathFactory,
    database_server: DatabaseServer,
    migrated_template: str,
    redis_server: Valkey,
) -> Iterator[Door]:
    """Some workers that each make room for a new one after a dozen requests."""
    dsn = database_server.create(migrated_template)
    directory = tmp_path_factory.mktemp("workers")
    with open_door(directory, dsn, redis_server.url, web_workers=WORKERS, web_max_requests=12) as made:
        until(lambda: len(children(made.pid)) == WORKERS, 20, "all workers run")
        yield made
    database_server.drop(dsn)


def scrape(door: Door) -> dict[Series, float]:
    """Every sample by name and labels."""
    text = ask(door, "/metrics")[1]
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def ask(door: Door, path: str) -> tuple[int, str]:
    """Status and body of one answer, on a connection of its own, so that any worker may give it."""
    address = urlsplit(door.url)
    connection = HTTPConnection(str(address.hostname), address.port, timeout=20)
    with closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


BODY = json.dumps({"handler": "echo", "payload": {"message": "hi"}}).encode()


def half_a_request(door: Door) -> socket.socket:
    """A submission without the last byte of its body: a worker waits for it."""
    address = urlsplit(door.url)
    connection = socket.create_connection((str(address.hostname), address.port or 0), timeout=20)
    head = "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY[:-1])
    return connection


def in_progress(door: Door) -> float:
    """Requests being answered, the question itself included."""
    return scrape(door)["mutirao_http_requests_in_progress", frozenset()]


def counters(samples: Mapping[Series, float]) -> dict[Series, float]:
    return {key: value for key, value in samples.items() if key[0].endswith(("_total", "_count", "_bucket"))}


def files(door: Door) -> set[str]:
    return {file.name for file in Path(str(door.settings["runtime_dir"]), "web-metrics").iterdir()}


def test_workers_come_and_go_and_every_request_is_counted_once(door: Door) -> None:
    seen, workers = scrape(door), set(children(door.pid))
    asked = 0
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            answers = [pool.submit(ask, door, f"/{uuid4()}") for _ in range(40)]
            assert {answer.result()[0] for answer in answers} == {404}
            asked += len(answers)
            now = scrape(door)
            assert {key: value for key, value in counters(seen).items() if now[key] < value} == {}
            seen = now
            workers |= set(children(door.pid))
            assert len(files(door)) <= 5 * (WORKERS + 1)
    assert len(workers) >= 2 * WORKERS
    assert not any(name.startswith(("mutirao_attempts", "mutirao_coordinator")) for name, _ in seen)
    route = frozenset({"method": "GET", "route": "unmatched", "status": "404"}.items())
    assert seen["mutirao_http_requests_total", route] == asked
    assert seen["mutirao_http_request_seconds_count", frozenset({("route", "unmatched")})] == asked


def test_a_killed_worker_leaves_its_counts_and_takes_what_it_was_doing(door: Door) -> None:
    for _ in range(10):
        ask(door, f"/{uuid4()}")
    waiting = [half_a_request(door) for _ in range(6)]
    until(lambda: in_progress(door) == len(waiting) + 1, 10, "every request has reached a worker")
    before, workers = scrape(door), set(children(door.pid))
    for worker in workers:
        with suppress(ProcessLookupError):  # one that had answered enough was just being replaced
            os.kill(worker, signal.SIGKILL)
    until(lambda: len(set(children(door.pid)) - workers) == WORKERS, 20, "all are replaced")
    assert in_progress(door) == 1
    after = scrape(door)
    assert {key: value for key, value in counters(before).items() if after[key] < value} == {}
    for connection in waiting:
        connection.close()


def refused(directory: Path, settings: dict[str, object]) -> str:
    """What `mutirao web` says when it does not even start."""
    config = directory / "refused.toml"
    config.write_text(toml(settings))
    config.chmod(0o600)
    argv = [sys.executable, "-m", "mutirao", "web", "--config", str(config)]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode in (2, 5)
    return ended.stderr


def test_who_finds_the_port_taken_leaves_the_counts_alone(door: Door, tmp_path: Path) -> None:
    ask(door, f"/{uuid4()}")
    before = counters(scrape(door))
    assert f"port {urlsplit(door.url).port} on 127.0.0.1 is taken" in refused(tmp_path, door.settings)
    after = counters(scrape(door))
    assert {key: value for key, value in before.items() if after[key] < value} == {}


def test_a_runtime_directory_that_cannot_be_used_is_named(tmp_path: Path, postgres_dsn: str) -> None:
    (tmp_path / "file").touch()
    settings: dict[str, object] = {
        "postgres": postgres_dsn,
        "redis": "redis://127.0.0.1:1",
        "runtime_dir": str(tmp_path / "file"),
        "web_port": free_port(),
    }
    assert f"cannot keep metrics in {tmp_path}/file/web-metrics" in refused(tmp_path, settings)


def test_told_to_stop_it_finishes_what_it_has_begun(
    tmp_path: Path, postgres_dsn: str, redis_url: str
) -> None:
    with open_door(tmp_path, postgres_dsn, redis_url, web_workers=2) as door:
        begun = [half_a_request(door) for _ in range(4)]
        until(lambda: in_progress(door) == len(begun) + 1, 10, "every request has reached a worker")
        os.kill(door.pid, signal.SIGTERM)
        until(lambda: not reachable(door), 10, "it takes no more")
        for connection in begun:
            connection.sendall(BODY[-1:])
            assert connection.recv(65536).startswith(b"HTTP/1.1 201 ")
            connection.close()
        assert door.count() == len(begun)


def reachable(door: Door) -> bool:
    address = urlsplit(door.url)
    with closing(socket.socket()) as connection:
        return connection.connect_ex((address.hostname, address.port)) == 0
