"""How long a single job waits for its start while nothing else is to be done."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from contextlib import closing
from uuid import UUID

from mutirao.bench.cluster import PrivateCluster
from mutirao.bench.door import CLOCK, Door

WARM_UP = 5
PAUSE = 0.05
TIMEOUT = 30.0


def idle_latency(cluster: PrivateCluster, jobs: int) -> dict[str, float]:
    """Milliseconds from the acknowledgement to the claim and to the handler's first line, p50 and p99.

    Both ends are read from the one clock of this machine; a claim can precede the answer's arrival.
    """
    acknowledged = _submit(cluster, jobs)
    cluster.wait(lambda: cluster.outcomes.live() == 0, TIMEOUT, "single jobs have not ended")
    found = cluster.outcomes.starts(list(acknowledged))
    waits = {
        "idle_claim": [1000 * (found[id][0] - at) for id, at in acknowledged.items()],
        "idle_start": [1000 * (found[id][1] - at) for id, at in acknowledged.items()],
    }
    return {
        f"{name}_p{percent}": percentile(values, percent)
        for name, values in waits.items()
        for percent in (50, 99)
    }


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that `percent` of them do not exceed."""
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def _submit(cluster: PrivateCluster, jobs: int) -> dict[UUID, float]:
    """Submits one job after another, with a pause in which it ends; when each was acknowledged."""
    acknowledged: dict[UUID, float] = {}
    body = json.dumps(CLOCK).encode()
    with closing(Door(cluster.urls[0])) as door:
        for number in range(WARM_UP + jobs):
            answer = door.post("/api/v1/jobs", body)
            at = time.time()
            if number >= WARM_UP:
                acknowledged[UUID(answer["id"])] = at
            time.sleep(PAUSE)
    return acknowledged
