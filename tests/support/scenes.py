"""What several acceptance tests do to jobs and nodes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from tests.support.cluster import Cluster, Node
from tests.support.load import Submitter
from tests.support.traces import Trace, traces
from tests.support.waiting import until


@dataclass(frozen=True, slots=True)
class Run:
    """A job that a node runs, and its attempt as the handler saw it begin."""

    job: UUID
    node: Node
    trace: Trace


def start_probes(cluster: Cluster, submitter: Submitter, count: int, **payload: object) -> list[UUID]:
    """Submits probes that leave their traces in the cluster's directory."""
    job = {"handler": "probe", "payload": {"directory": str(cluster.traces), **payload}}
    return submitter.submit([({**job, "backoff": {"base": 0.0, "cap": 0.0}}, None)] * count)


def runs_on_a_worker(cluster: Cluster, jobs: Collection[UUID], timeout: float = 15.0) -> list[Run]:
    """Waits until some of the jobs run on one node that is not the coordinator; these."""

    def found() -> list[Run]:
        holder = cluster.holder().name
        runs = [run for run in _runs(cluster, jobs) if run.node.name != holder]
        return [run for run in runs if run.node == runs[0].node]

    return until(found, timeout, f"one of {len(jobs)} jobs running on a worker")


def _runs(cluster: Cluster, jobs: Collection[UUID]) -> list[Run]:
    nodes = {node.name: node for node in cluster.members()}
    found = []
    for job in jobs:
        name, seen = cluster.running_on(job), traces(cluster.traces, job)
        if name and seen and seen[-1].end is None:
            found.append(Run(job, nodes[name], seen[-1]))
    return found


def next_run(cluster: Cluster, run: Run, timeout: float) -> Trace:
    """Waits until the job of `run` was started again; that attempt."""

    def again() -> Trace | None:
        later = [trace for trace in traces(cluster.traces, run.job) if trace.attempt > run.trace.attempt]
        return later[0] if later else None

    return until(again, timeout, f"job {run.job} started again", every=0.02)
