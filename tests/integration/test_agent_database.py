"""PostgreSQL in trouble of its own: a full disk, a clock that is behind (I1, I8)."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import httpx
import psycopg
import pytest

from mutirao.domain.job import Backoff
from mutirao.embedded.postgres import Postgres
from mutirao.store.migrate import migrate
from tests.support.agents import Site, site
from tests.support.door import free_port, web_server
from tests.support.small_disk import small_disk
from tests.support.waiting import until

LARGE = 100_000
MANY = 600  # such jobs are more than the disk has room for


def test_with_its_disk_full_nothing_is_acknowledged_and_nothing_acknowledged_is_lost(
    server_home: Path, tmp_path: Path, redis_url: str
) -> None:
    with small_disk(server_home / "small") as (postgres, disk):
        migrate(postgres.dsn)
        with site(tmp_path, postgres.dsn, redis_url) as made:
            agent = made.agent("crowded").start().serving()
            settings = {**agent.settings, "web_port": free_port()}
            with web_server(tmp_path / "web", settings) as (url, _), _client(url) as http:
                running = made.record(2.0)
                made.becomes(running, "running")
                disk.fill()
                _refused(made, http)
                until(lambda: made.traces(running), 10.0, "the handler is at its end")
                disk.free()
                _all_well(made, http)
                disk.starve()
                _end_by_its_log(postgres)
                _refused(made, http)
                assert http.get("/livez").status_code == 200
                disk.free()
                postgres.launch()
                postgres.wait_ready()
                _all_well(made, http)
            assert agent.running
            assert made.node(agent).incarnation == 1


def _end_by_its_log(postgres: Postgres) -> None:
    """The next segment of the write-ahead log finds no room: the server ends, and cannot even start."""

    def ended() -> bool:
        with suppress(psycopg.Error), psycopg.connect(postgres.superuser_dsn, autocommit=True) as connection:
            connection.execute("SELECT pg_logical_emit_message(true, '', ''), pg_switch_wal()")
        return postgres.process is not None and postgres.process.poll() is not None

    until(ended, 20.0, "the server has ended")


def _refused(made: Site, http: httpx.Client) -> None:
    """Sooner or later a submission is refused; those before it are accepted."""
    for _ in range(MANY):
        answer = http.post("/api/v1/jobs", json=_job())
        job = _accepted(answer)
        if job is None:
            assert answer.status_code == 503
            assert answer.headers["content-type"] == "application/problem+json"
            assert int(answer.headers["retry-after"]) > 0
            return
        made.jobs.append(job)
    raise AssertionError("the disk did not fill up")


def _all_well(made: Site, http: httpx.Client) -> None:
    """A submission is accepted, and what was accepted before comes to its end."""
    last = until(lambda: _accepted(http.post("/api/v1/jobs", json=_job())), 20.0, "accepted again")
    made.jobs.append(last)
    for job in made.jobs:
        made.becomes(job, "succeeded", 30.0)


def _client(url: str) -> httpx.Client:
    return httpx.Client(base_url=url, timeout=30, trust_env=False)


def _job() -> dict[str, object]:
    return {"handler": "measure", "payload": {"text": secrets.token_hex(LARGE // 2)}}


def _accepted(answer: httpx.Response) -> UUID | None:
    return UUID(answer.json()["id"]) if answer.status_code == 201 else None


@pytest.fixture
def made(tmp_path: Path, postgres_dsn: str, redis_url: str) -> Iterator[Site]:
    with site(tmp_path, postgres_dsn, redis_url) as made:
        yield made


def test_with_its_clock_behind_due_times_neither_run_back_nor_stand_still(made: Site) -> None:
    agent = made.agent("timely").start()
    agent.event("office_taken", 20.0)
    # As after a failover from a server whose clock was an hour ahead of this one's.
    made.stage.write("UPDATE term SET clock_floor = clock_timestamp() + interval '1 hour'")
    job = made.submit("fail", {"times": 2}, backoff=Backoff(1.0, 1.0))
    seen = [_now(made)]

    def ended() -> bool:
        seen.append(_now(made))
        return bool(made.stage.state(job) == "succeeded")

    until(ended, 15.0, "the retries come due")
    assert seen == sorted(seen)
    assert [step for step in made.stage.steps(job) if step[0] == "due"] == [
        ("due", "scheduled", "queued")
    ] * 2
    ahead = made.stage.rows("SELECT cluster_now() - clock_timestamp() AS ahead")[0].ahead
    assert timedelta(minutes=59) < ahead < timedelta(hours=1)


def _now(made: Site) -> datetime:
    (row,) = made.stage.rows("SELECT cluster_now() AS now")
    now: datetime = row.now
    return now
