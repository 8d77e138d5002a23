"""50,000 jobs through 8 nodes: none lost, one end each, bounded attempts, unbroken audit (I1, I4, I5, I6)."""

from __future__ import annotations

import pytest

from mutirao.loop import boottime
from tests.acceptance.conftest import Measure
from tests.support.checker import check
from tests.support.cluster import Cluster
from tests.support.load import Ledger, Submitter, mix

JOBS = 50_000
GOAL = 60.0


@pytest.mark.timeout(300, method="signal")
def test_every_outcome_is_as_its_handler_decided(
    shared: Cluster, ledger: Ledger, submitter: Submitter, measure: Measure
) -> None:
    work = list(mix(JOBS, calm=True))
    started = boottime()
    submitter.many(work)
    measure("50,000 jobs: acknowledged", boottime() - started)
    shared.drained(3 * GOAL)
    took = boottime() - started
    measure("50,000 jobs: all ended", took, goal=GOAL)
    measure("50,000 jobs: rate", JOBS / took, "jobs/s")
    started = boottime()
    assert check(shared.dsn, ledger.jobs, ledger.expected()) == []
    measure("checker", boottime() - started)
