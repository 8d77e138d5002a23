"""kill -9 of the coordinator's agent under load, ten times at random moments (I1, I3, I4)."""

from __future__ import annotations

import random
import signal
import time

import pytest

from mutirao.loop import boottime
from tests.acceptance.conftest import Measure
from tests.support.checker import check
from tests.support.cluster import Cluster, Node
from tests.support.load import Ledger, Pressure, Submitter
from tests.support.processes import alive, send
from tests.support.waiting import until

KILLS = 10
GOAL = 6.0


@pytest.mark.timeout(400, method="signal")
def test_another_is_in_office_soon_and_nothing_is_lost(
    shared: Cluster, ledger: Ledger, submitter: Submitter, measure: Measure
) -> None:
    moments = random.Random(20261130)
    waits = []
    with Pressure(submitter, per_second=200):
        for _ in range(KILLS):
            # The moment is what is random here; nothing is waited for.
            time.sleep(moments.uniform(0.2, 2.0))
            waits.append(_kill_the_coordinator(shared))
    measure("coordinator killed: next in office, worst of ten", max(waits), goal=GOAL)
    measure("coordinator killed: next in office, mean of ten", sum(waits) / KILLS)
    shared.drained(90)
    assert check(shared.dsn, ledger.jobs, ledger.expected()) == []


def _living_holder(cluster: Cluster) -> Node | None:
    holder = cluster.holder()
    return holder if alive(holder.agent) else None


def _kill_the_coordinator(cluster: Cluster) -> float:
    """Seconds from the kill to the next term."""
    term, holder = cluster.term(), until(lambda: _living_holder(cluster), 15, "the coordinator's agent alive")
    killed = boottime()
    send(holder.agent, signal.SIGKILL)
    until(lambda: cluster.term() > term, 3 * GOAL, f"a coordinator after {holder.name} of term {term}")
    return boottime() - killed
