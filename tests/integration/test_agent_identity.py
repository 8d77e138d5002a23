"""One identity, one live agent: seconds are refused, the superseded end with all they ran (DESIGN §5)."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from mutirao.store import sql
from tests.support.agents import AgentProcess, Site, site
from tests.support.pgproxy import opening, proxy
from tests.support.processes import Watch, alive
from tests.support.running import pids_in
from tests.support.waiting import until

BEAT = opening(sql.load("nodes.sql").beat)


@pytest.fixture
def made(tmp_path: Path, postgres_dsn: str, redis_url: str) -> Iterator[Site]:
    with site(tmp_path, postgres_dsn, redis_url) as made:
        yield made


def family(made: Site, **fields: int) -> tuple[UUID, list[int]]:
    """A job that runs until it is killed, and its processes: the runner and two that hide."""
    file = made.directory / "family"
    job = made.submit("spawn_setsid", {"pids": str(file)}, **fields)
    return job, pids_in(file)


def clone(made: Site, first: AgentProcess) -> AgentProcess:
    """The same identity on what might be another machine."""
    twin = made.agent("clone")
    shutil.copy(first.state / "node-id", twin.state / "node-id")
    return twin


def test_a_second_agent_on_one_state_directory_is_told_who_has_it(made: Site) -> None:
    first = made.agent("first").start().serving()
    second = made.agent("second", state_dir=str(first.state)).start()
    assert second.ended() == 5
    assert f"pid {first.pid} holds {first.state}" in second.text()
    job = made.record()
    made.becomes(job, "succeeded")
    assert made.node(first).incarnation == 1


def test_a_clone_is_refused_while_the_first_lives_and_starts_once_it_is_dead(made: Site) -> None:
    first = made.agent("first").start().serving()
    _, pids = family(made, max_retries=0)
    twin = clone(made, first).start()
    assert twin.ended() == 5
    assert f"another live agent beats as node {first.id}" in twin.text()
    assert "Remove `node-id` from its state directory" in twin.text()
    assert all(alive(pid) for pid in pids), "the clone has touched what the living one runs"
    assert first.running
    first.send(signal.SIGKILL)
    assert first.ended() == -signal.SIGKILL
    twin.start().serving()
    assert not any(alive(pid) for pid in pids)
    assert twin.event("registered")["incarnation"] == 2
    assert twin.event("registered")["jobs_moved_on"] == 1


def test_a_superseded_agent_ends_with_all_it_ran_and_acknowledges_nothing(made: Site, tmp_path: Path) -> None:
    with proxy(made.dsn) as link:
        agent = made.agent("old", postgres=link.dsn).start().serving()
        job, pids = family(made)
        late = made.record(1.0)
        made.becomes(late, "running")
        with link.holding(BEAT):
            # It cannot know yet that another has come.
            assert made.stage.node(agent.id, 1).moved == 2
            watch = Watch([*pids, *agent.descendants()])
            until(lambda: made.traces(late), 10.0, "the late one ended in its runner")
            refused = "mutirao_acknowledgements_refused_total"
            until(lambda: agent.metric(refused) >= 1, 10.0, "the late end refused and counted")
            assert agent.running
        assert agent.ended() == 3
    watch.last_death(1.0)
    for one in (job, late):
        steps = made.stage.steps(one)
        assert ("node_lost", "running", "queued") in steps
        assert not [step for step in steps if step[2] in {"succeeded", "dead"}]
        assert made.stage.state(one) == "queued"
    assert ("ack_refused", None, None) in made.stage.steps(late)
