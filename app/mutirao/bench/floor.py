"""What this machine's stores can do at all, measured in the same run as everything else."""

from __future__ import annotations

from collections import deque

from uuid_utils.compat import uuid7

from mutirao.bench.cluster import PrivateCluster
from mutirao.bench.parallel import spread
from mutirao.coordination.bench import pipelined_sets
from mutirao.coordination.connection import connect
from mutirao.store.bench import Floor

BATCH = 500
COMMIT_SECONDS = 1.0
CONNECTIONS = 4
PIPELINES = 50


def measure_floor(cluster: PrivateCluster, jobs: int) -> dict[str, float]:
    """Rates per second of the raw stores, over as many rows as there will be jobs."""
    floor = Floor(cluster.dsn)
    ids = [uuid7() for _ in range(jobs)]

    def commit(_: deque[None]) -> int:
        return floor.commits(COMMIT_SECONDS)

    with floor.tables():
        copied, copied_narrow = floor.copy(ids), floor.copy_narrow(ids)
        passed, passed_narrow = floor.passes(ids, BATCH), floor.passes_narrow(ids, BATCH)
        alone = floor.commits(COMMIT_SECONDS)
        together = spread(commit, [], CONNECTIONS)
    return {
        "copy": jobs / copied,
        "three_passes": jobs / passed,
        "copy_narrow": jobs / copied_narrow,
        "three_passes_narrow": jobs / passed_narrow,
        "commits_1": alone / COMMIT_SECONDS,
        "commits_4": sum(together) / COMMIT_SECONDS,
        "redis_set": pipelined_sets(connect(cluster.redis_url), PIPELINES),
    }
