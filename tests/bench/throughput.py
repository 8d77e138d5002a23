"""Measures no-op jobs through `mutirao up`: python -m tests.bench.throughput --nodes 8 --jobs 50000."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from typing import Any

from mutirao.loop import boottime
from tests.support.checker import check
from tests.support.cluster import Cluster, sweep_leftovers
from tests.support.load import Job, Ledger, Submitter
from tests.support.waiting import until

WAIT = "SELECT extract(epoch FROM started_at - created_at)::float8 FROM finished_jobs WHERE id = %s"


def main() -> int:
    """Prints one JSON object; fails if the checker finds anything."""
    options = _options()
    sweep_leftovers()
    cluster = Cluster(nodes=options.nodes, environment={"MUTIRAO_SLOTS": str(options.slots)})
    try:
        cluster.start()
        result = measure(cluster, options.jobs, options.idle)
    finally:
        cluster.close()
    print(json.dumps({"nodes": options.nodes, "slots": options.slots, **result, **_machine()}, indent=2))
    return 1 if result["violations"] else 0


def measure(cluster: Cluster, jobs: int, idle: int) -> dict[str, Any]:
    """The rates of `jobs` no-op jobs, and how long each of `idle` single ones waits for its start."""
    ledger = Ledger()
    submitter = Submitter([node.url for node in cluster.members()], ledger)
    echo: Job = {"handler": "echo", "payload": {"message": "x"}, "max_retries": 0}
    latencies = sorted(_idle_wait(cluster, submitter, echo) for _ in range(idle))
    before = cluster.rows("SELECT count(*) FROM finished_jobs")[0][0]
    started = boottime()
    submitter.many([(echo, None)] * jobs)
    acknowledged = boottime() - started
    until(
        lambda: (
            cluster.live_jobs() == 0
            and cluster.rows("SELECT count(*) FROM finished_jobs")[0][0] >= before + jobs
        ),
        600,
        "every job ended",
    )
    took = boottime() - started
    return {
        "jobs": jobs,
        "acknowledged_per_second": round(jobs / acknowledged),
        "jobs_per_second": round(jobs / took),
        "seconds": round(took, 2),
        "idle_start_p50_ms": round(1000 * statistics.median(latencies), 1),
        "idle_start_p99_ms": round(1000 * latencies[int(len(latencies) * 0.99)], 1),
        "violations": [str(violation) for violation in check(cluster.dsn, ledger.jobs)],
    }


def _idle_wait(cluster: Cluster, submitter: Submitter, job: Job) -> float:
    """Seconds from the submission to the start, both by PostgreSQL's clock."""
    (id,) = submitter.submit([(job, None)])
    found = until(lambda: cluster.rows(WAIT, id), 30, "one idle job ended", every=0.01)
    return float(found[0][0])


def _machine() -> dict[str, Any]:
    return {"cpus": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--idle", type=int, default=200)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
