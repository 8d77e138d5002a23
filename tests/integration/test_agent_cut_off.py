"""Agents without one of their stores, at their start or later: they wait, make room, and come back (I10)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from mutirao.agent.elector import TERM_BEAT_LIMIT, TERM_SILENCE
from mutirao.domain.job import Backoff
from mutirao.loop import boottime
from tests.integration.conftest import DatabaseServer
from tests.support.agents import AgentProcess, Site, site
from tests.support.door import free_port
from tests.support.pgproxy import proxy
from tests.support.waiting import until

SLACK = 4.0  # for a busy machine; leaving and taking office need less than 2 s on a quiet one


@pytest.fixture(scope="module", autouse=True)
def lonely(
    tmp_path_factory: pytest.TempPathFactory, database_server: DatabaseServer, migrated_template: str
) -> Iterator[tuple[Site, AgentProcess]]:
    """An agent that has never heard of a Redis; its 15 s of patience pass while other tests run."""
    dsn = database_server.create(migrated_template)
    url = f"redis://127.0.0.1:{free_port()}/0"
    with site(tmp_path_factory.mktemp("lonely"), dsn, url) as made:
        agent = made.agent("lonely").start()
        yield made, agent
    database_server.drop(dsn)


@pytest.fixture
def made(tmp_path: Path, postgres_dsn: str, redis_url: str) -> Iterator[Site]:
    with site(tmp_path, postgres_dsn, redis_url) as made:
        yield made


def test_with_postgresql_away_at_its_start_an_agent_waits_for_it(made: Site) -> None:
    with proxy(made.dsn, opened=False) as link:
        agent = made.agent("patient", postgres=link.dsn).start()
        agent.event("waiting_for_postgresql", 20.0)
        job = made.record()
        link.open()
        made.becomes(job, "succeeded", 20.0)
        assert agent.event("registered")["incarnation"] == 1


def test_a_coordinator_cut_off_from_postgresql_alone_makes_room(made: Site) -> None:
    with proxy(made.dsn) as link:
        cut_off = made.agent("cut-off", postgres=link.dsn).start()
        cut_off.event("office_taken")
        other = made.agent("other").start().serving()
        short = [made.record(0.1) for _ in range(30)]
        long = [made.record(3.0) for _ in range(3)]
        until(lambda: running(made, long), 15.0, "the coordinator runs a long one", every=0.02)
        with link.cut():
            cut = boottime()
            until(lambda: made.leader() == "other", TERM_BEAT_LIMIT + 1.5 + SLACK, "another in office")
            assert boottime() - cut > TERM_BEAT_LIMIT - 1.5, "it had no time to be sure"
            assert cut_off.event("office_left")["why"] == "the term's beat does not commit"
            apart = [made.record() for _ in range(10)]
            for job in apart:
                made.becomes(job, "succeeded")
        for job in [*short, *long]:
            made.becomes(job, "succeeded", 20.0)
        assert made.leader() == "other"
        last: list[UUID] = []
        until(
            lambda: last.append(made.record(0.2)) or running(made, last),  # type: ignore[func-returns-value]
            15.0,
            "the one that was cut off works again",
        )
        for job in last:
            made.becomes(job, "succeeded")
    assert {len(made.traces(job)) for job in made.jobs} == {1}
    assert cut_off.running
    assert made.node(cut_off).incarnation == 1
    assert cut_off.metric("mutirao_coordinator") == 0
    assert other.metric("mutirao_coordinator") == 1


def running(made: Site, jobs: list[UUID]) -> bool:
    """Whether the node `cut-off` runs one of the jobs."""
    query = """SELECT 1 FROM jobs JOIN nodes ON nodes.id = jobs.node
        WHERE jobs.id = ANY(%s) AND jobs.state = 'running' AND nodes.name = 'cut-off'"""
    return bool(made.stage.rows(query, jobs))


def test_without_redis_from_the_start_an_agent_works_by_postgresql_alone(
    lonely: tuple[Site, AgentProcess],
) -> None:
    made, agent = lonely
    jobs = [made.record() for _ in range(20)]
    taken = agent.event("office_taken", TERM_SILENCE + 10.0)
    assert taken["without_redis"] is True
    for job in jobs:
        made.becomes(job, "succeeded")
        assert len(made.traces(job)) == 1
    failing = made.submit("fail", {"times": 1}, backoff=Backoff(0.1, 0.1))
    made.becomes(failing, "succeeded")
    assert agent.metric("mutirao_beat_age_seconds") > 10.0  # the sum over both stores
