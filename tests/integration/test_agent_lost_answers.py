"""Commits whose request, or whose answer, is lost on the way: everything happens once (I4, DESIGN §5)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from mutirao.store import sql
from tests.integration.conftest import DatabaseServer
from tests.support.agents import AgentProcess, Site, site
from tests.support.pgproxy import Proxy, opening, proxy
from tests.support.valkey import scratch_server
from tests.support.waiting import until

UNKNOWN = "mutirao_unknown_commits_total"
EXECUTION, NODES = sql.load("execution.sql"), sql.load("nodes.sql")
ASSIGNMENT, TERM = sql.load("assignment.sql"), sql.load("term.sql")
STEPS = {
    "claim": EXECUTION.claim,
    "acknowledgement": EXECUTION.acknowledge,
    "assignment": ASSIGNMENT.assign,
    "promotion": ASSIGNMENT.promote_due,
    "beat": NODES.beat,
    "term's beat": TERM.beat,
}
What = Literal["commit", "answer"]


@pytest.fixture(scope="module")
def working(
    tmp_path_factory: pytest.TempPathFactory,
    database_server: DatabaseServer,
    migrated_template: str,
) -> Iterator[tuple[Site, AgentProcess, Proxy]]:
    """One agent, in office, for all the steps of a job's life."""
    dsn = database_server.create(migrated_template)
    directory = tmp_path_factory.mktemp("answers")
    with scratch_server(directory) as redis, site(directory, dsn, redis.url) as made, proxy(dsn) as link:
        agent = made.agent("working", postgres=link.dsn).start()
        agent.event("office_taken", 20.0)
        yield made, agent, link
    database_server.drop(dsn)


@pytest.mark.parametrize("what", ["commit", "answer"])
@pytest.mark.parametrize("step", STEPS)
def test_a_job_runs_once_and_ends_once(
    working: tuple[Site, AgentProcess, Proxy], step: str, what: What
) -> None:
    made, agent, link = working
    before = agent.metric(UNKNOWN)
    lost = link.lose(what, opening(STEPS[step]))
    job = made.record()
    assert lost.wait(10.0)
    made.becomes(job, "succeeded")
    assert len(made.traces(job)) == 1
    assert made.stage.row(job).attempt == 1
    events = [event for event, *_ in made.stage.steps(job)]
    assert events == ["submitted", "assigned", "claimed", "succeeded"]
    until(lambda: agent.metric(UNKNOWN) == before + 1, 5.0, "one unknown outcome counted")
    assert agent.metric("mutirao_acknowledgements_refused_total") == 0
    assert (made.node(agent).incarnation, made.stage.rows("SELECT term FROM term")[0].term) == (1, 1)


@pytest.mark.parametrize(("what", "incarnation"), [("commit", 1), ("answer", 2)])
def test_a_registration_and_an_office_are_taken_once(
    tmp_path: Path, postgres_dsn: str, redis_url: str, what: What, incarnation: int
) -> None:
    """A registration that came through after all is followed by the next, nobody having beaten under it."""
    with site(tmp_path, postgres_dsn, redis_url) as made, proxy(postgres_dsn) as link:
        lost = [link.lose(what, opening(step)) for step in (NODES.register, TERM.take)]
        agent = made.agent("beginning", postgres=link.dsn).start()
        taken = agent.event("office_taken", 25.0)
        assert all(event.is_set() for event in lost)
        assert agent.event("registered")["incarnation"] == made.node(agent).incarnation == incarnation
        assert taken["term"] == made.stage.rows("SELECT term FROM term")[0].term == 1
        made.becomes(made.record(), "succeeded")
        assert agent.metric(UNKNOWN) == 2
