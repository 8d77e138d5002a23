"""One run of the benchmark, from an empty directory to a verified result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from uuid_utils.compat import uuid7

from mutirao.bench.cluster import PrivateCluster, scratch
from mutirao.bench.door import ECHO, batch_rate, batches, single_rate
from mutirao.bench.figures import Run
from mutirao.bench.floor import measure_floor
from mutirao.bench.latency import WARM_UP, idle_latency
from mutirao.domain.job import NewJob
from mutirao.embedded.signals import Signals
from mutirao.errors import MutiraoError
from mutirao.loop import boottime
from mutirao.store.bench import Outcomes
from mutirao.store.insights import Insights
from mutirao.store.jobs import Jobs

BATCH = 1000
SINGLES = 1000
BATCH_CONNECTIONS = 4
SINGLE_CONNECTIONS = 8
# Counting what is left takes from what is measured.
LOOK_EVERY = 1.0
# Without one job less in so many seconds, something is wrong.
STALL = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    """What is to be measured, and on what."""

    nodes: int
    slots: int
    jobs: int
    idle: int
    parent: Path


class WrongOutcome(MutiraoError):
    """The tables do not say that every job succeeded exactly once: the figures mean nothing."""

    code = "wrong_outcome"


def measure(options: Options, signals: Signals, say: Callable[[str], None]) -> Run:
    """Measures everything once on a cluster of its own; raises WrongOutcome if any job went astray."""
    say(f"starting {options.nodes} nodes")
    with (
        scratch(options.parent, signals) as directory,
        PrivateCluster(directory, options.nodes, options.slots, signals) as cluster,
    ):
        say("the floor: PostgreSQL and Redis alone")
        floors = measure_floor(cluster, options.jobs)
        cluster.start_webs()
        cluster.start_agents()
        cluster.wait_ready()
        say(f"idle latency of {options.idle} single jobs")
        values = idle_latency(cluster, options.idle)
        cluster.stop_agents()
        say(f"submission of {options.jobs} jobs while no agent runs")
        values |= _submissions(cluster, options.jobs)
        say("execution of the backlog")
        values["throughput"] = _drain(cluster, options.jobs)
        cluster.stop_agents()
        verify(cluster.outcomes, options.jobs + options.idle + WARM_UP)
    return Run(values, floors)


def verify(outcomes: Outcomes, expected: int) -> None:
    """Raises WrongOutcome unless the tables say that so many jobs each succeeded exactly once."""
    counts = outcomes.counts()
    wrong = {name: count for name, count in counts.items() if count != (0 if name == "live" else expected)}
    if wrong:
        raise WrongOutcome(f"not every one of {expected} jobs succeeded exactly once: {wrong}")


def _submissions(cluster: PrivateCluster, jobs: int) -> dict[str, float]:
    """The backlog, a part of it by each way in."""
    singles = max(1, min(SINGLES, jobs // 10))
    direct = (jobs - singles) // 2
    return {
        "submit_store": _into_store(cluster, direct),
        "submit_batch": batch_rate(cluster.urls, jobs - singles - direct, BATCH, BATCH_CONNECTIONS),
        "submit_single": single_rate(cluster.urls, singles, SINGLE_CONNECTIONS),
    }


def _into_store(cluster: PrivateCluster, count: int) -> float:
    jobs, contracts = Jobs(cluster.database), Insights(cluster.database).contracts()
    # As the door does it: under the contract that the agents have published.
    contract = next(one.id for one in contracts if one.handler == ECHO["handler"])
    made = [[_echo(contract) for _ in range(size)] for size in batches(count, BATCH)]
    started = boottime()
    for batch in made:
        jobs.submit(batch)
    return count / (boottime() - started)


def _echo(contract: int) -> NewJob:
    handler, payload = str(ECHO["handler"]), '{"message": "x"}'
    return NewJob(uuid7(), handler, payload, max_retries=0, submitted_by="bench", contract=contract)


def _drain(cluster: PrivateCluster, jobs: int) -> float:
    cluster.start_agents()
    left = jobs
    while left:
        left = _fewer(cluster, left)
    ended, seconds = cluster.outcomes.drained(str(ECHO["handler"]))
    return ended / seconds


def _fewer(cluster: PrivateCluster, before: int) -> int:
    """How many jobs are left once that is less than before."""
    seen = before

    def moved() -> bool:
        nonlocal seen
        seen = cluster.outcomes.live()
        return seen < before

    cluster.wait(moved, STALL, f"still {before} jobs", every=LOOK_EVERY)
    return seen
