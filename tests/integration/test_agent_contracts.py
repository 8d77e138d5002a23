"""Two versions of a handler in one cluster: a job runs only where its payload is accepted (DESIGN §4)."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mutirao.domain.views import ContractView
from mutirao.errors import Unavailable
from mutirao.services.contracts import ContractBook
from mutirao.store.insights import Insights
from tests.support.agents import AgentProcess, Site, site
from tests.support.versions import version
from tests.support.waiting import until


class Versions:
    """A site whose agents serve one version of `count` or the other."""

    def __init__(self, made: Site) -> None:
        self.site = made
        self.file = made.directory / "counts"
        self.insights = Insights(made.stage.database)

    def agent(self, name: str, number: int) -> AgentProcess:
        """A node with that version; started and serving."""
        return self.restart(self.site.agent(name), number)

    def restart(self, agent: AgentProcess, number: int) -> AgentProcess:
        """The same node with that version."""
        return agent.start(handler_modules=[version(self.site.directory, number)]).serving()

    def submit(self, number: int, contract: int, **fields: Any) -> UUID:
        """A job under that contract."""
        return self.site.submit(
            "count", {"number": number, "file": str(self.file)}, contract=contract, **fields
        )

    def contract(self) -> ContractView:
        """What the doors go by."""
        return next(one for one in self.insights.contracts() if one.handler == "count")

    def ran(self) -> list[tuple[UUID, int]]:
        """(job, version) of every run."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [(UUID(line.split()[0]), int(line.split()[1])) for line in lines]

    def served(self, job: UUID) -> bool:
        """What readers are told."""
        view = self.insights.job(job)
        assert view is not None
        return view.served


@pytest.fixture
def made(tmp_path: Path, postgres_dsn: str, redis_url: str) -> Iterator[Versions]:
    with site(tmp_path, postgres_dsn, redis_url) as made:
        yield Versions(made)


def stop(agent: AgentProcess) -> None:
    agent.send(signal.SIGTERM)
    assert agent.ended() == 0


def test_what_cannot_accept_the_queue_is_refused_by_name_until_it_can(made: Versions) -> None:
    node = made.agent("node-1", 1)
    first = made.contract().id
    stop(node)
    good, bad = made.submit(5, first), made.submit(-5, first)

    made.restart(node, 2)
    refused = node.event("contract_refused")
    assert refused["handler"] == "count"
    assert refused["why"] == f"job {bad}: payload.number: Input should be greater than or equal to 0"
    door = made.contract()
    assert (door.id, door.nodes, door.accepted) == (first, [], True)
    assert [(one.node, one.message) for one in door.refusals] == [("node-1", refused["why"])]
    made.site.becomes(made.site.submit("echo", {"message": "other handlers are served"}), "succeeded")
    assert made.site.stage.state(good) == made.site.stage.state(bad) == "queued"

    made.site.stage.jobs.cancel([bad], "somebody")
    made.site.becomes(good, "succeeded")
    assert node.event("contract_accepted")["handler"] == "count"
    assert made.ran() == [(good, 2)]
    door = made.contract()
    assert door.id != first and door.nodes == ["node-1"] and door.refusals == []
    adopted = [step for step in made.site.stage.steps(good) if step[0] == "contract_adopted"]
    assert adopted == [("contract_adopted", None, None)]


def test_versions_side_by_side_and_then_one_alone(made: Versions) -> None:
    old = made.agent("old", 1)
    first = made.contract().id
    made.agent("new", 2)
    second = made.contract().id
    assert second != first, "the newest that a live node serves"
    jobs = {made.submit(number, contract): contract for number in range(8) for contract in (first, second)}
    odd = made.submit(-1, first)
    for job in [*jobs, odd]:
        made.site.becomes(job, "succeeded")
    assert sorted(made.ran()) == sorted([(job, 1 if jobs[job] == first else 2) for job in jobs] + [(odd, 1)])

    later = made.site.stage.rows("SELECT now() + interval '3 s' AS time")[0].time
    good, bad = (made.submit(number, first, run_at=later) for number in (9, -9))
    stop(old)
    made.site.becomes(good, "succeeded", timeout=20.0)
    assert (good, 2) in made.ran()
    until(lambda: made.contract().unserved_jobs == 1, 10.0, "one job is left over")
    # Seen, in nobody's way, and not lost.
    assert made.site.stage.state(bad) == "queued" and not made.served(bad)
    made.site.becomes(made.submit(1, second), "succeeded")

    made.restart(old, 1)
    made.site.becomes(bad, "succeeded")
    assert (bad, 1) in made.ran()
    until(lambda: made.contract().unserved_jobs == 0, 10.0, "no job is left over")


def test_what_no_contract_was_named_for_is_looked_at_first(made: Versions) -> None:
    """As jobs are that were submitted before contracts had numbers."""
    good, bad = made.submit(3, 0), made.submit(-3, 0)
    node = made.agent("node-1", 2)
    assert str(bad) in node.event("contract_refused")["why"]
    door = made.contract()
    assert not door.accepted and door.nodes == []
    with pytest.raises(Unavailable, match=f"no live node serves `count`: refused on node-1: job {bad}"):
        ContractBook(made.insights.contracts).door("count", "handler")
    made.site.stage.jobs.cancel([bad], "somebody")
    made.site.becomes(good, "succeeded")
    assert made.ran() == [(good, 2)]
    assert ContractBook(made.insights.contracts).door("count", "handler").contract == door.id


def test_a_restart_refuses_nothing_that_was_served(made: Versions) -> None:
    """Else a job that fits no node would take its whole handler with it."""
    node = made.agent("node-1", 2)
    contract = made.contract().id
    left, job = made.submit(-1, 0), made.submit(1, contract)
    made.site.becomes(job, "succeeded")
    assert node.event("jobs_fit_no_node")["why"].startswith(f"job {left}: payload.number")
    stop(node)
    made.restart(node, 2)
    made.site.becomes(made.submit(2, contract), "succeeded")
    assert not node.events("contract_refused")
    assert made.site.stage.state(left) == "queued"
