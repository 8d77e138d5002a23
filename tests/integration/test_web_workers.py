"""Several web workers that come and go count as one: nothing is lost, doubled or left behind."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.door import Door, open_door
from tests.support.processes import children
from tests.support.waiting import until

WORKERS = 4
Series = tuple[str, frozenset[tuple[str, str]]]


@pytest.fixture
def door(tmp_path: Path, postgres_dsn: str, redis_url: str) -> Iterator[Door]:
    """Four workers that each make room for a new one after some twenty requests."""
    with open_door(tmp_path, postgres_dsn, redis_url, web_workers=WORKERS, web_max_requests=20) as made:
        until(lambda: len(children(made.pid)) == WORKERS, 20, "all workers run")
        yield made


def scrape(door: Door) -> dict[Series, float]:
    """Every sample by name and labels."""
    text = ask(door, "GET", "/metrics").text
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def ask(door: Door, method: str, path: str) -> httpx.Response:
    """One answer, on a connection of its own, so that any worker may give it."""
    return httpx.request(method, f"{door.url}{path}", timeout=20, trust_env=False)


def total(samples: Mapping[Series, float], name: str) -> float:
    return sum(value for (found, _), value in samples.items() if found == name)


def counters(samples: Mapping[Series, float]) -> dict[Series, float]:
    return {key: value for key, value in samples.items() if key[0].endswith(("_total", "_count", "_bucket"))}


def files(door: Door) -> set[str]:
    return {file.name for file in Path(str(door.settings["runtime_dir"]), "web-metrics").iterdir()}


def test_workers_come_and_go_and_every_request_is_counted_once(door: Door) -> None:
    seen, workers = scrape(door), set(children(door.pid))
    asked = 0
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            answers = [pool.submit(ask, door, "GET", f"/{uuid4()}") for _ in range(60)]
            assert {answer.result().status_code for answer in answers} == {404}
            asked += len(answers)
            now = scrape(door)
            assert {key: value for key, value in counters(seen).items() if now[key] < value} == {}
            seen = now
            workers |= set(children(door.pid))
            assert len(files(door)) <= 5 * (WORKERS + 1)
    assert len(workers) >= 2 * WORKERS
    route = frozenset({"method": "GET", "route": "unmatched", "status": "404"}.items())
    assert seen["mutirao_http_requests_total", route] == asked
    assert seen["mutirao_http_request_seconds_count", frozenset({("route", "unmatched")})] == asked


def test_a_killed_worker_leaves_its_counts_and_takes_what_it_was_doing(door: Door) -> None:
    for _ in range(10):
        ask(door, "GET", f"/{uuid4()}")
    address = urlsplit(door.url)
    half = b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n"
    half += b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n"
    waiting = [socket.create_connection((str(address.hostname), address.port or 0)) for _ in range(6)]
    for connection in waiting:
        connection.sendall(half)
    in_progress = ("mutirao_http_requests_in_progress", frozenset[tuple[str, str]]())
    until(lambda: scrape(door)[in_progress] == len(waiting) + 1, 10, "every request has reached a worker")
    before, workers = scrape(door), set(children(door.pid))
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    until(lambda: len(set(children(door.pid)) - workers) == WORKERS, 20, "all are replaced")
    after = scrape(door)
    assert after[in_progress] == 1  # the scrape itself
    assert {key: value for key, value in counters(before).items() if after[key] < value} == {}
    for connection in waiting:
        connection.close()
