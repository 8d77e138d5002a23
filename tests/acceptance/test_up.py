"""`mutirao up` twice, after a kill -9 of everything, and beside a living one (I1)."""

from __future__ import annotations

import signal
from pathlib import Path
from uuid import UUID

import pytest

from mutirao.domain.job import State
from mutirao.loop import boottime
from tests.acceptance.conftest import Measure, NewCluster
from tests.support.checker import Expected, check
from tests.support.cluster import Cluster
from tests.support.load import Ledger, Submitter, mix
from tests.support.processes import Watch, children, send
from tests.support.scenes import runs_on_a_worker, start_probes
from tests.support.traces import overlaps
from tests.support.waiting import until

CONFLICT = 5
GREET = """
from dataclasses import dataclass

from mutirao.contract import Context, handler


@dataclass
class Who:
    name: str


@handler("greet")
def greet(payload: Who, context: Context) -> str:
    return f"hello {payload.name}"
"""
GOAL_START = 10.0
DRAIN = 20.0


@pytest.mark.timeout(400, method="signal")
def test_up_again_and_again_on_the_same_data(new_cluster: NewCluster, measure: Measure) -> None:
    cluster = new_cluster(nodes=3)
    ledger = Ledger()
    _start(cluster, measure, "first")
    _work(cluster, ledger)
    _refuses_a_second(cluster)

    started = boottime()
    assert cluster.stop() == 0
    measure("up: SIGTERM drains an idle cluster", boottime() - started, goal=DRAIN)
    _start(cluster, measure, "again after a drain")
    _nothing_lost(cluster, ledger)

    _crash_of_everything(cluster, ledger)
    _start(cluster, measure, "again after a kill -9 of everything")
    cluster.drained(60)
    _nothing_lost(cluster, ledger)

    orphans = _crash_of_the_supervisor(cluster, ledger)
    _start(cluster, measure, "again beside its orphans")
    orphans.last_death(1.0)
    cluster.drained(60)
    _nothing_lost(cluster, ledger)
    assert overlaps(cluster.traces) == []


@pytest.mark.timeout(180, method="signal")
def test_sigterm_lets_running_jobs_end(new_cluster: NewCluster, measure: Measure) -> None:
    cluster = new_cluster(nodes=2)
    cluster.options = ["--handlers", str(_own_handlers(cluster)), "--allow-command", "/usr/bin/env"]
    cluster.start()
    ledger = Ledger()
    own = _submitter(cluster, ledger).one("greet", {"name": "Ana"})
    until(lambda: cluster.state(own) == "succeeded", 20, "a handler of one's own")
    served = "SELECT count(*) FROM node_contracts WHERE handler IN ('greet', 'command') AND refusal IS NULL"
    assert cluster.rows(served)[0][0] == 2 * cluster.nodes
    job = start_probes(cluster, _submitter(cluster, ledger), 2, seconds=3.0)
    runs_on_a_worker(cluster, job)
    started = boottime()
    assert cluster.stop() == 0
    measure("up: SIGTERM drains running jobs of 3 s", boottime() - started, goal=DRAIN)
    cluster.start()
    ended = {id: Expected(State.SUCCEEDED, ("succeeded",)) for id in job}
    cluster.drained(30)
    assert check(cluster.dsn, ledger.jobs, ended) == []


def _own_handlers(cluster: Cluster) -> Path:
    """A directory with one handler, as a newcomer would write it."""
    directory = cluster.run / "handlers"
    directory.mkdir()
    (directory / "greet.py").write_text(GREET)
    return directory


def _start(cluster: Cluster, measure: Measure, name: str) -> None:
    started = boottime()
    cluster.start(6 * GOAL_START)
    measure(f"up, {name}: ready", boottime() - started, goal=GOAL_START)


def _submitter(cluster: Cluster, ledger: Ledger) -> Submitter:
    return Submitter([node.url for node in cluster.members()], ledger)


def _work(cluster: Cluster, ledger: Ledger) -> None:
    _submitter(cluster, ledger).submit(list(mix(200, calm=True)))
    cluster.drained(60)


def _nothing_lost(cluster: Cluster, ledger: Ledger) -> None:
    assert check(cluster.dsn, ledger.jobs, ledger.expected()) == []


def _refuses_a_second(cluster: Cluster) -> None:
    """While one lives: an error that names its pid, its data directory and its port."""
    living = cluster.process
    second = cluster.spawn()
    cluster.process = living
    assert second.wait(20) == CONFLICT
    message = (cluster.run / "up.log").read_text().splitlines()[-5:]
    for wanted in (str(living.pid if living else ""), str(cluster.data), str(cluster.port)):
        assert any(wanted in line for line in message), f"{wanted} not in {message}"
    assert len(cluster.incarnations("live")) == cluster.nodes


def _running(cluster: Cluster, ledger: Ledger) -> list[UUID]:
    """Jobs that run and have children in sessions of their own, and others behind them."""
    submitter = _submitter(cluster, ledger)
    jobs = start_probes(cluster, submitter, 3, seconds=3.0, family=True)
    submitter.submit(list(mix(200, calm=False)))
    runs_on_a_worker(cluster, jobs)
    return jobs


def _crash_of_everything(cluster: Cluster, ledger: Ledger) -> None:
    _running(cluster, ledger)
    cluster.kill()


def _crash_of_the_supervisor(cluster: Cluster, ledger: Ledger) -> Watch:
    """Only the supervisor is killed; a watch over all that it leaves behind."""
    _running(cluster, ledger)
    assert cluster.process is not None
    orphans = children(cluster.process.pid)
    send(cluster.process.pid, signal.SIGKILL)
    cluster.process.wait(10)
    return Watch(orphans)
