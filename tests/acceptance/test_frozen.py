"""Agents that are stopped and continued: they come back to a world that has moved on (I2, I3, I4)."""

from __future__ import annotations

import signal

import psutil
import pytest

from mutirao.loop import boottime
from tests.acceptance.conftest import Measure
from tests.support.checker import check
from tests.support.cluster import Cluster, Node
from tests.support.load import Ledger, Pressure, Submitter
from tests.support.processes import Watch, alive, send
from tests.support.scenes import Run, next_run, runs_on_a_worker, start_probes
from tests.support.traces import overlaps
from tests.support.waiting import until

GOAL_TERM = 6.0
FROZEN = 15.0
LEASE = 10.0
# From the start of the last accepted beat, which may lie a beat's period and its time before the freeze.
DEADLINE = LEASE - 1.0
SLACK = 1.0


@pytest.mark.timeout(240, method="signal")
def test_a_frozen_workers_late_acknowledgement_is_refused_and_its_runners_are_dead(
    shared: Cluster, ledger: Ledger, submitter: Submitter, measure: Measure
) -> None:
    # One job ends under the frozen agent, so that its result lies ready; one holds the interpreter lock.
    long = start_probes(shared, submitter, 4, seconds=14.0, hold=True)
    holding = runs_on_a_worker(shared, long)[0]
    short = runs_on_a_worker(shared, start_probes(shared, submitter, 4, seconds=6.0))[0]
    watch = Watch(holding.trace.pids)
    agents = {short.node.agent, holding.node.agent}
    frozen = boottime()
    for agent in agents:
        send(agent, signal.SIGSTOP)
    try:
        dead = watch.last_death(DEADLINE + SLACK) - frozen
        measure("worker frozen: runner holding the interpreter lock dead", dead, goal=DEADLINE)
        for run in (short, holding):
            measure(
                "worker frozen: job started elsewhere", next_run(shared, run, 45).start - frozen, goal=15.0
            )
        until(lambda: shared.state(short.job) == "succeeded", 45, f"{short.job} ended elsewhere")
    finally:
        for agent in agents:
            send(agent, signal.SIGCONT)
    until(lambda: _refused(shared, short), 15, f"the late acknowledgement of {short.job} refused")
    _all_back(shared)
    shared.drained(60)
    assert _refused(shared, short) == 1
    assert overlaps(shared.traces) == []
    assert check(shared.dsn, ledger.jobs, ledger.expected()) == []


@pytest.mark.timeout(240, method="signal")
def test_a_frozen_coordinator_finds_its_office_taken(
    shared: Cluster, ledger: Ledger, submitter: Submitter, measure: Measure
) -> None:
    with Pressure(submitter, per_second=100):
        term, holder = shared.term(), shared.holder()
        frozen = boottime()
        send(holder.agent, signal.SIGSTOP)
        try:
            until(lambda: shared.term() > term, 3 * GOAL_TERM, "a term after the frozen one")
            measure("coordinator frozen: next in office", boottime() - frozen, goal=GOAL_TERM)
            until(lambda: boottime() - frozen > FROZEN, FROZEN + 1, "the freeze to pass")
        finally:
            send(holder.agent, signal.SIGCONT)
        _all_back(shared)
    shared.drained(60)
    assert check(shared.dsn, ledger.jobs, ledger.expected()) == []


@pytest.mark.timeout(240, method="signal")
def test_a_coordinator_frozen_inside_its_transaction_does_not_delay_its_successor(
    shared: Cluster, ledger: Ledger, submitter: Submitter, measure: Measure
) -> None:
    point = shared.failpoints / "assign.inside"
    term = shared.term()
    with Pressure(submitter, per_second=100):
        point.write_text("freeze")
        until(point.with_name(f"{point.name}.hit").exists, 15, "a coordinator at the failpoint", every=0.01)
        frozen = boottime()
        victim = until(lambda: _stopped(shared), 5, "an agent stopped")
        try:
            until(lambda: shared.term() > term, 3 * GOAL_TERM, "a term after the frozen one")
            measure(
                "coordinator frozen in its transaction: next in office", boottime() - frozen, goal=GOAL_TERM
            )
            until(lambda: _assigned_under(shared, term + 1), 15, "jobs assigned by the successor")
        finally:
            send(victim.agent, signal.SIGCONT)
            point.with_name(f"{point.name}.hit").unlink()
        _all_back(shared)
    shared.drained(60)
    assert check(shared.dsn, ledger.jobs, ledger.expected()) == []


def _refused(cluster: Cluster, run: Run) -> int:
    """How many acknowledgements of the run's attempt were refused, by the audit log."""
    query = "SELECT count(*) FROM audit WHERE job_id = %s AND attempt = %s AND event = 'ack_refused'"
    return int(cluster.rows(query, run.job, run.trace.attempt)[0][0])


def _assigned_under(cluster: Cluster, term: int) -> int:
    query = "SELECT count(*) FROM audit WHERE term >= %s AND to_state = 'assigned'"
    return int(cluster.rows(query, term)[0][0])


def _stopped(cluster: Cluster) -> Node | None:
    return next((node for node in cluster.members() if _is_stopped(node.agent)), None)


def _is_stopped(pid: int) -> bool:
    return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)


def _all_back(cluster: Cluster) -> None:
    """Waits until every node is live again."""
    until(lambda: len(cluster.incarnations("live")) == cluster.nodes, 45, "every node live again")
    assert all(alive(node.agent) for node in cluster.members())
