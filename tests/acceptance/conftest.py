"""Clusters for the acceptance tests, and what was measured on them."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import ROOT, Cluster, sweep_leftovers
from tests.support.load import Ledger, Submitter

MEASUREMENTS = pytest.StashKey[list[dict[str, Any]]]()
FILE = ROOT / "build" / "acceptance.jsonl"

Measure = Callable[..., None]
NewCluster = Callable[..., Cluster]


class Pool:
    """The one shared cluster of the session, started when first asked for, and the ledger of its jobs."""

    def __init__(self) -> None:
        self.cluster: Cluster | None = None
        self.ledger = Ledger()

    def shared(self) -> Cluster:
        """The shared cluster of eight, running."""
        if self.cluster is None:
            self.cluster = Cluster(nodes=8)
            self.cluster.start()
        return self.cluster

    def close(self) -> None:
        """Ends the shared cluster, so that another has the machine to itself."""
        if self.cluster is not None:
            self.cluster.close()
            self.cluster = None
            self.ledger = Ledger()


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    sweep_leftovers()
    pool = Pool()
    yield pool
    pool.close()


@pytest.fixture
def shared(pool: Pool, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Eight nodes that several tests use one after the other; the next gets a new one after a failure."""
    failures = request.session.testsfailed
    try:
        cluster = pool.shared()
        yield cluster
    finally:
        if request.session.testsfailed > failures:
            _show_logs(pool.cluster)
            pool.close()


@pytest.fixture
def ledger(pool: Pool) -> Ledger:
    """What the shared cluster has acknowledged so far, in all tests."""
    return pool.ledger


@pytest.fixture
def submitter(shared: Cluster, ledger: Ledger) -> Submitter:
    """Submits to any node of the shared cluster."""
    return Submitter([node.url for node in shared.members()], ledger)


@pytest.fixture
def new_cluster(pool: Pool, request: pytest.FixtureRequest) -> Iterator[NewCluster]:
    """Makes clusters of this test's own, not started; the shared one is ended first."""
    pool.close()
    made: list[Cluster] = []

    def make(**options: Any) -> Cluster:
        made.append(Cluster(**options))
        return made[-1]

    failures = request.session.testsfailed
    yield make
    for cluster in made:
        if request.session.testsfailed > failures:
            _show_logs(cluster)
        cluster.close()


@pytest.fixture(scope="session")
def measure(pytestconfig: pytest.Config) -> Measure:
    """measure(name, value, unit, goal): kept for the summary and in build/acceptance.jsonl for the docs."""
    kept = pytestconfig.stash.setdefault(MEASUREMENTS, [])

    def keep(name: str, value: float, unit: str = "s", goal: float | None = None) -> None:
        record = {"name": name, "value": round(value, 3), "unit": unit, "goal": goal}
        kept.append(record)
        FILE.parent.mkdir(exist_ok=True)
        stamp = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "python": platform.python_version()}
        with FILE.open("a") as file:
            file.write(json.dumps({**record, **stamp}) + "\n")

    return keep


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Every measured value beside its goal."""
    kept = config.stash.get(MEASUREMENTS, [])
    if kept:
        terminalreporter.section("measured")
    for record in kept:
        goal = "" if record["goal"] is None else f"   (goal {record['goal']:g})"
        terminalreporter.line(f"{record['name']:<56} {record['value']:>12,.3f} {record['unit']}{goal}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on the shared cluster come before those that end it."""
    here = Path(__file__).parent

    def last(item: pytest.Item) -> bool:
        return item.path.is_relative_to(here) and "new_cluster" in getattr(item, "fixturenames", ())

    items.sort(key=last)


def _show_logs(cluster: Cluster | None) -> None:
    if cluster is not None:
        print(cluster.log_tail())
