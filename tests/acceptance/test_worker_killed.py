"""kill -9 of a worker's agent: its jobs run again, and only after all it had started is dead (I2)."""

from __future__ import annotations

import signal

import pytest

from mutirao.loop import boottime
from tests.acceptance.conftest import Measure, NewCluster
from tests.support.checker import check
from tests.support.cluster import Cluster
from tests.support.load import Ledger, Submitter
from tests.support.processes import Watch, send
from tests.support.scenes import Run, next_run, runs_on_a_worker, start_probes
from tests.support.traces import overlaps

GOAL_RESTARTED = 3.0
GOAL_LOST = 15.0
DEATH = 5.0


@pytest.mark.timeout(120, method="signal")
def test_restarted_its_jobs_run_again_once_their_processes_are_dead(
    shared: Cluster, ledger: Ledger, submitter: Submitter, measure: Measure
) -> None:
    jobs = start_probes(shared, submitter, 8, seconds=4.0, family=True)
    runs = runs_on_a_worker(shared, jobs)
    delays = _kill_and_see(shared, runs, 3 * GOAL_RESTARTED, measure, "worker killed, restarted")
    measure("worker killed, restarted: run again after the deaths", max(delays), goal=GOAL_RESTARTED)
    shared.drained(60)
    assert overlaps(shared.traces) == []
    assert check(shared.dsn, ledger.jobs, ledger.expected()) == []


@pytest.mark.timeout(180, method="signal")
def test_not_restarted_its_jobs_run_elsewhere(new_cluster: NewCluster, measure: Measure) -> None:
    cluster = new_cluster(nodes=3, options=["--no-restart"]).start()
    ledger = Ledger()
    submitter = Submitter([node.url for node in cluster.members()], ledger)
    jobs = start_probes(cluster, submitter, 4, seconds=4.0, family=True)
    runs = runs_on_a_worker(cluster, jobs)
    delays = _kill_and_see(cluster, runs, 3 * GOAL_LOST, measure, "worker killed, not restarted")
    measure("worker killed, not restarted: run elsewhere", max(delays), goal=GOAL_LOST)
    cluster.drained(60)
    assert runs[0].node.name not in cluster.incarnations("live", "draining")
    assert overlaps(cluster.traces) == []
    assert check(cluster.dsn, ledger.jobs) == []


def _kill_and_see(
    cluster: Cluster, runs: list[Run], timeout: float, measure: Measure, name: str
) -> list[float]:
    """Kills the agent that `runs` run under; seconds from each job's last death to its next start."""
    watches = [Watch(run.trace.pids) for run in runs]
    killed = boottime()
    send(runs[0].node.agent, signal.SIGKILL)
    deaths = [watch.last_death(DEATH) for watch in watches]
    measure(f"{name}: runners and their children dead", max(deaths) - killed)
    after = [next_run(cluster, run, timeout) for run in runs]
    assert [trace.survivors for trace in after] == [()] * len(runs)
    delays = [trace.start - death for trace, death in zip(after, deaths, strict=True)]
    # The watch may notice a death up to its period late.
    assert min(delays) > -0.05, "a job was started again while its earlier processes lived"
    return delays
