"""How an agent ends: it drains when told to, and takes nothing with it when its guard is killed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mutirao.loop import boottime
from tests.support.agents import Site, site
from tests.support.pgproxy import proxy
from tests.support.processes import Watch, alive
from tests.support.running import pids_in
from tests.support.waiting import until

TALKING = str(Path(__file__).parents[1] / "talking_handlers.py")
SLACK = 10.0  # for a busy machine


@pytest.fixture
def made(tmp_path: Path, postgres_dsn: str, redis_url: str) -> Iterator[Site]:
    with site(tmp_path, postgres_dsn, redis_url) as made:
        yield made


def test_sigterm_lets_what_runs_end_and_takes_nothing_new(made: Site) -> None:
    agent = made.agent("draining", slots=1).start().serving()
    job = made.record(2.0)
    made.becomes(job, "running")
    behind = [made.record() for _ in range(5)]
    agent.send(signal.SIGTERM)
    assert agent.ended() == 0
    assert made.stage.state(job) == "succeeded"
    assert made.stage.row(job).attempt == 1
    assert made.node(agent).status == "stopped"
    for other in behind:
        assert made.stage.state(other) == "queued"
        assert made.traces(other) == []
    agent.start().serving()
    for other in behind:
        made.becomes(other, "succeeded")


def test_what_outlasts_the_drain_is_interrupted_and_starts_elsewhere_at_once(made: Site) -> None:
    agent = made.agent("hurried", drain_timeout=0.5).start().serving()
    retried, last = made.record(2.0), made.record(60.0, max_retries=0)
    for job in (retried, last):
        made.becomes(job, "running")
    other = made.agent("other").start().serving()
    agent.send(signal.SIGTERM)
    told = boottime()
    assert agent.ended(0.5 + SLACK) == 0
    assert made.stage.state(last) == "dead"
    assert made.stage.row(last).error["type"] == "Interrupted"
    made.becomes(retried, "succeeded", told + 2.0 + SLACK - boottime())
    assert made.stage.row(retried).node == other.id
    outcomes = "SELECT outcome FROM attempts WHERE job_id = %s ORDER BY attempt"
    assert [row.outcome for row in made.stage.rows(outcomes, retried)] == ["interrupted", "succeeded"]
    assert ("interrupted", "running", "queued") in made.stage.steps(retried), "it waits for no backoff"


def test_a_cancelled_jobs_grace_does_not_outlast_the_drain(made: Site) -> None:
    agent = made.agent("patient", handler_modules=[TALKING], drain_timeout=0.5).start().serving()
    told = made.directory / "told"
    python = f"while not context.cancelled: time.sleep(0.01)\nopen({str(told)!r}, 'w')\ntime.sleep(60)"
    job = made.submit("do_with_grace", {"python": python})  # half a minute
    made.becomes(job, "running")
    made.stage.jobs.cancel([job], "somebody")
    until(told.exists, 10.0, "the handler knows")
    agent.send(signal.SIGTERM)
    assert agent.ended(0.5 + SLACK) == 0
    assert made.stage.state(job) == "cancelled"


def test_sigterm_ends_an_agent_whose_postgresql_is_silent(made: Site) -> None:
    with proxy(made.dsn) as link:
        agent = made.agent("silenced", postgres=link.dsn, drain_timeout=0.5).start()
        agent.event("office_taken")
        job = made.submit("sleep", {"seconds": 60})
        made.becomes(job, "running")
        runners = agent.descendants()
        with link.cut():
            agent.send(signal.SIGTERM)
            assert agent.ended(30.0 + SLACK) == 0
            assert agent.events("drained_without_the_store")
            assert not any(alive(pid) for pid in runners)
            assert made.stage.state(job) == "running", "nobody could say how it ended"
        agent.start().serving()
        until(lambda: made.stage.row(job).attempt == 2, 5.0, "the job starts again")


def test_with_its_guard_killed_an_agent_ends_and_all_it_ran_and_restarted_it_gives_back(made: Site) -> None:
    agent = made.agent("guarded").start().serving()
    file, other = made.directory / "family", made.directory / "other"
    job = made.submit("spawn_setsid", {"pids": str(file)})
    dead = made.submit("spawn_setsid", {"pids": str(other)}, max_retries=0)
    watch = Watch([*pids_in(file), *pids_in(other), *agent.descendants()])
    file.unlink()
    agent.kill_guard()
    assert agent.ended() == 4
    watch.last_death(0.5)
    assert made.stage.state(job) == "running", "that is for its next incarnation to say"
    assert agent.start().event("registered", SLACK)["jobs_moved_on"] == 2
    assert made.stage.state(dead) == "dead"
    assert pids_in(file, SLACK)
    assert made.stage.row(job).attempt == 2
