"""PostgreSQL and Redis taken away and given back: every loop goes on by itself, no thread is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from mutirao.loop import boottime
from tests.acceptance.conftest import Measure, NewCluster
from tests.support.checker import check
from tests.support.cluster import Cluster
from tests.support.load import Ledger, Submitter
from tests.support.processes import alive, children, send
from tests.support.waiting import until

GOAL_BACK = 15.0
# Longer than a connection is given to answer, shorter than a lease.
SILENT = 6.0
SMALL_MIB = 400


@pytest.mark.timeout(240, method="signal")
def test_every_loop_goes_on_by_itself(new_cluster: NewCluster, measure: Measure) -> None:
    cluster = new_cluster(nodes=2).start()
    ledger = Ledger()
    submitter = Submitter([node.url for node in cluster.members()], ledger)
    _works(cluster, submitter, "at first")
    threads = _threads(cluster)

    for _ in range(3):
        _end_all_sessions(cluster)
        # The next request already works, on both nodes.
        for node in cluster.members():
            assert httpx.post(f"{node.url}/api/v1/jobs", json=_echo()).status_code == httpx.codes.CREATED
    _works(cluster, submitter, "all sessions terminated", measure)

    for name, pids in (("PostgreSQL", _postgres(cluster)), ("Redis", [cluster.up()["redis"]["pid"]])):
        with _frozen(pids):
            _refused(cluster) if name == "PostgreSQL" else _works(cluster, submitter, "Redis frozen")
        _works(cluster, submitter, f"{name} was frozen", measure)

    for name in ("postgres", "redis"):
        pid = cluster.up()[name]["pid"]
        send(pid, signal.SIGKILL)
        until(lambda pid=pid: not alive(pid), 5, f"{name} is dead")  # type: ignore[misc]
        _works(cluster, submitter, f"{name} was killed", measure)

    until(lambda: _woken_again(cluster), 15, "every agent hears of work again, not only by asking")
    until(lambda: _as_before(cluster, threads), 30, "every thread is there still")
    logs = "".join(path.read_text() for path in (cluster.data / "logs").glob("node-*.log"))
    assert "loop_crashed" not in logs
    assert "Exception in thread" not in logs
    assert set(cluster.incarnations().values()) == {1}, "nobody had to begin anew"
    cluster.drained(30)
    assert check(cluster.dsn, ledger.jobs, ledger.expected()) == []


def _works(cluster: Cluster, submitter: Submitter, when: str, measure: Measure | None = None) -> None:
    """A job submitted at each node ends, and soon."""
    began = boottime()
    jobs = [submitter.one("echo", {"message": when}) for _ in cluster.members()]
    for job in jobs:
        until(lambda job=job: _state(cluster, job) == "succeeded", 3 * GOAL_BACK, f"a job ends: {when}")  # type: ignore[misc]
    if measure is not None:
        measure(f"{when}: jobs end", boottime() - began, goal=GOAL_BACK)


def _state(cluster: Cluster, job: object) -> str:
    try:
        return cluster.state(job)  # type: ignore[arg-type]
    except psycopg.OperationalError:
        return ""


def _refused(cluster: Cluster) -> None:
    """The door says so itself, in time, with a date for the next try; it stays alive."""
    for node in cluster.members():
        with httpx.Client(base_url=node.url, timeout=20) as http:
            answer = http.post("/api/v1/jobs", json=_echo())
            assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
            assert int(answer.headers["retry-after"]) > 0
            assert answer.json()["hint"]
            assert http.get("/readyz").status_code == httpx.codes.SERVICE_UNAVAILABLE
            assert http.get("/livez").status_code == httpx.codes.OK


def _echo() -> dict[str, object]:
    return {"handler": "echo", "payload": {"message": "hello"}}


def _end_all_sessions(cluster: Cluster) -> None:
    cluster.rows(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE usename = current_user AND pid <> pg_backend_pid()"
    )


def _postgres(cluster: Cluster) -> list[int]:
    server = cluster.up()["postgres"]["pid"]
    return [server, *children(server)]


@contextmanager
def _frozen(pids: list[int]) -> Iterator[None]:
    """Connections stay open and nothing answers, for SILENT seconds at least."""
    for pid in pids:
        send(pid, signal.SIGSTOP)
    began = boottime()
    try:
        yield
        # The outage's length is what is tested, so it is waited for.
        until(lambda: boottime() - began > SILENT, SILENT + 1, "long enough")
    finally:
        for pid in pids:
            send(pid, signal.SIGCONT)


def _threads(cluster: Cluster) -> dict[int, int]:
    """How many threads each agent has; a web server's come and go."""
    return {node.agent: len(os.listdir(f"/proc/{node.agent}/task")) for node in cluster.members()}  # noqa: PTH208


def _as_before(cluster: Cluster, threads: dict[int, int]) -> bool:
    now = _threads(cluster)
    assert now.keys() == threads.keys(), "an agent has ended"
    return all(now[pid] >= threads[pid] for pid in threads)


def _woken_again(cluster: Cluster) -> bool:
    """Each subscription has connected at first, and again."""
    logs = [cluster.data / "logs" / f"{node.name}-agent.log" for node in cluster.members()]
    return all(log.read_text().count("wakeups_connected") > 1 for log in logs)


@pytest.fixture
def small(new_cluster: NewCluster) -> Iterator[Cluster]:
    """A cluster whose data, logs and all, has a small disk of its own."""
    cluster: Cluster = new_cluster(nodes=2)
    cluster.data.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_MIB}m,mode=0755", "mutirao-test", str(cluster.data)]
    if subprocess.run(argv, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root mounts; tests/integration/test_agent_database.py fills PostgreSQL's disk")
    try:
        yield cluster
    finally:
        cluster.close()
        subprocess.run(["umount", "--lazy", str(cluster.data)], check=True)


@pytest.mark.timeout(180, method="signal")
def test_a_cluster_whose_disk_is_full_comes_back_once_there_is_room(small: Cluster, measure: Measure) -> None:
    small.start()
    ledger = Ledger()
    submitter = Submitter([node.url for node in small.members()], ledger)
    _works(small, submitter, "with room")
    filler = small.data / "filler"
    _fill(filler)
    _says_that_its_disk_is_full(small, submitter)
    # It cannot even start again, and whoever writes a log finds no room: nobody gives up.
    server = small.up()["postgres"]["pid"]
    send(server, signal.SIGKILL)
    tries = "starting it again in"
    until(lambda: _said(small).count(tries) >= 3, 30, "PostgreSQL is started in vain")
    assert small.process is not None
    assert small.process.poll() is None
    for node in small.members():
        assert alive(node.agent)
        assert httpx.get(f"{node.url}/readyz", timeout=20).status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert "No space left on device" in _said(small)
    filler.unlink()
    _works(small, submitter, "the full disk has room again", measure)
    until(
        lambda: json.loads((small.data / "up.json").read_text())["postgres"]["pid"] != server, 10, "up.json"
    )
    assert check(small.dsn, ledger.jobs, ledger.expected()) == []


def _fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(1 << 16)):
                pass
        except OSError:
            return


def _says_that_its_disk_is_full(cluster: Cluster, submitter: Submitter) -> None:
    """Sooner or later a submission is refused, and the refusal names the disk; those before are accepted."""
    body = {"handler": "echo", "payload": {"message": "x" * 100_000}}
    with httpx.Client(base_url=cluster.members()[0].url, timeout=20) as http:
        for _ in range(500):
            answer = http.post("/api/v1/jobs", json=body)
            if answer.status_code != httpx.codes.CREATED:
                break
    assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert int(answer.headers["retry-after"]) > 0
    assert "No space left on device" in answer.json()["detail"]
    assert "make room" in answer.json()["hint"]


def _said(cluster: Cluster) -> str:
    return (cluster.run / "up.log").read_text()
