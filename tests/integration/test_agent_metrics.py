"""What an agent tells of itself: every attempt counted once, under few names whatever is submitted."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mutirao.domain.job import Backoff
from mutirao.embedded.valkey import Valkey
from tests.integration.conftest import DatabaseServer
from tests.support.agents import AgentProcess, Site, site
from tests.support.waiting import until

TOKEN = "s3cret-token"
# How long a statement of ours waits for a lock.
LOCK_TIMEOUT = timedelta(seconds=3)
Samples = dict[tuple[str, ...], float]


@pytest.fixture(scope="module")
def lone(
    tmp_path_factory: pytest.TempPathFactory,
    database_server: DatabaseServer,
    migrated_template: str,
    redis_server: Valkey,
) -> Iterator[tuple[Site, AgentProcess]]:
    """One agent in office, whose metrics ask for a token."""
    dsn = database_server.create(migrated_template)
    with site(tmp_path_factory.mktemp("lone"), dsn, redis_server.url) as made:
        agent = made.agent("node-1", api_token=TOKEN).start().serving()
        agent.event("office_taken", 20.0)
        yield made, agent
    database_server.drop(dsn)


def ask(agent: AgentProcess, path: str = "/metrics", token: str = TOKEN) -> httpx.Response:
    url = f"http://127.0.0.1:{agent.port}{path}"
    return httpx.get(url, headers={"Authorization": f"Bearer {token}"}, trust_env=False)


def samples(agent: AgentProcess) -> Samples:
    """Every sample by its name and the values of its labels."""
    families = text_string_to_metric_families(ask(agent).text)
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def settled(agent: AgentProcess, ended: int) -> Samples:
    """The samples once so many attempts have ended: they are counted just after PostgreSQL has them."""

    def found() -> Samples | None:
        seen = samples(agent)
        count = sum(value for name, value in seen.items() if name[0] == "mutirao_attempts_ended_total")
        return seen if count >= ended else None

    return until(found, 10.0, f"{ended} ends are counted")


def wander(made: Site) -> None:
    """Twenty jobs, each in a queue of its own."""
    jobs = [made.submit("echo", {"message": "hi"}, queue=f"q{uuid4().hex}") for _ in range(20)]
    for job in jobs:
        made.becomes(job, "succeeded")


def test_every_attempt_is_counted_once_and_series_stay_few(lone: tuple[Site, AgentProcess]) -> None:
    made, agent = lone
    made.becomes(made.submit("fail", {"times": 1}, backoff=Backoff(0.05, 0.05)), "succeeded")
    made.becomes(made.submit("fail", {}, max_retries=0), "dead")
    assert settled(agent, 3)["mutirao_retries_total",] == 1
    wander(made)
    seen = settled(agent, 23)
    assert seen["mutirao_attempts_started_total",] == 23
    assert seen["mutirao_job_wait_seconds_count",] == 23
    assert seen["mutirao_attempts_ended_total", "echo", "succeeded"] == 20
    assert seen["mutirao_attempt_seconds_count", "echo"] == 20
    assert seen["mutirao_attempts_ended_total", "fail", "failed"] == 2
    assert seen["mutirao_attempts_ended_total", "fail", "succeeded"] == 1
    assert (seen["mutirao_retries_total",], seen["mutirao_jobs_dead_total",]) == (1, 1)
    assert seen["mutirao_jobs_assigned_total",] == 23
    wander(made)
    assert settled(agent, 43).keys() == seen.keys()


def test_an_agent_tells_its_role_and_how_old_its_beats_are(lone: tuple[Site, AgentProcess]) -> None:
    seen = samples(lone[1])
    assert (seen["mutirao_coordinator",], seen["mutirao_term",]) == (1, 1)
    assert seen["mutirao_leadership_changes_total", "coordinator"] == 1
    for store in ("postgres", "redis"):
        assert 0 <= seen["mutirao_beat_age_seconds", store] < 10
    assert seen["mutirao_slots",] == 2
    assert not any(name[0].startswith(("mutirao_http", "mutirao_submissions")) for name in seen)


def test_the_port_asks_for_the_token_and_offers_nothing_else(lone: tuple[Site, AgentProcess]) -> None:
    agent = lone[1]
    with socket.create_connection(("127.0.0.1", agent.port)):  # says nothing, holds nobody up
        refused = ask(agent, token="wrong")
        assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert "mutirao" not in refused.text
        assert httpx.get(f"http://127.0.0.1:{agent.port}/metrics", trust_env=False).status_code == 401
        assert ask(agent, "/").status_code == 404
        assert ask(agent).status_code == 200


def test_a_port_that_is_taken_is_named(lone: tuple[Site, AgentProcess]) -> None:
    made, agent = lone
    second = made.agent("node-2", agent_port=agent.port).start()
    assert second.ended() == 5
    assert f"port {agent.port} on 127.0.0.1 is taken" in second.text()
    assert "agent_port" in second.text()


def test_no_start_waits_for_a_count(lone: tuple[Site, AgentProcess]) -> None:
    """A long queue takes long to count: here for as long as the test likes."""
    made, _ = lone
    waiting = """SELECT waitstart FROM pg_locks
        WHERE relation = 'mutirao.state_counts'::regclass AND NOT granted"""
    with psycopg.connect(made.dsn) as connection:
        connection.execute("LOCK TABLE mutirao.state_counts IN ACCESS EXCLUSIVE MODE")
        (since,) = until(lambda: connection.execute(waiting).fetchone(), 20.0, "the coordinator counts")
        job = made.submit("echo", {"message": "hi"})
        made.becomes(job, "succeeded")
    started = made.stage.rows("SELECT started_at FROM finished_jobs WHERE id = %s", job)[0].started_at
    assert started < since + LOCK_TIMEOUT


def test_attempts_lost_with_a_node_are_counted_where_the_loss_is_written(
    lone: tuple[Site, AgentProcess],
) -> None:
    made, agent = lone
    again, last = made.record(2.0), made.record(30.0, max_retries=0)
    for job in (again, last):
        made.becomes(job, "running")
    agent.kill()
    agent.start().serving()
    made.becomes(last, "dead")
    made.becomes(again, "succeeded")
    seen = settled(agent, 3)
    assert seen["mutirao_attempts_ended_total", "record", "node_lost"] == 2
    assert (seen["mutirao_retries_total",], seen["mutirao_jobs_dead_total",]) == (1, 1)
