"""Redis forgets everything, freezes, is gone: nothing is lost, doubled or declared dead for it (I10)."""

from __future__ import annotations

import signal
import time

import pytest

from mutirao.loop import boottime
from tests.acceptance.conftest import Measure, NewCluster
from tests.support.checker import check
from tests.support.cluster import Cluster
from tests.support.load import Ledger, Pressure, Submitter, mix
from tests.support.processes import send
from tests.support.redis_server import RedisServer
from tests.support.scenes import start_probes
from tests.support.traces import overlaps
from tests.support.waiting import until

AWAY = 120.0
GOAL_WITHOUT = 20.0
GOAL_BATCH = 20.0


@pytest.mark.timeout(420, method="signal")
def test_the_cluster_goes_on_by_postgresql_alone(new_cluster: NewCluster, measure: Measure) -> None:
    cluster = new_cluster(nodes=4)
    ledger = Ledger()
    with RedisServer(cluster.run) as redis:
        cluster.options = ["--redis", redis.url]
        cluster.start()
        submitter = Submitter([node.url for node in cluster.members()], ledger)
        before = cluster.incarnations()
        with Pressure(submitter, per_second=40):
            start_probes(cluster, submitter, 20, seconds=3.0)
            _forget(cluster, redis)
            assert cluster.incarnations() == before
            killed = _stay_away(cluster, submitter, redis, measure)
        cluster.drained(60)
        after = cluster.incarnations()
        assert {name: after[name] for name in after if name != killed} == {
            name: before[name] for name in before if name != killed
        }
        _speed_is_back(submitter, cluster, measure)
    assert overlaps(cluster.traces) == []
    assert check(cluster.dsn, ledger.jobs, ledger.expected()) == []


def _forget(cluster: Cluster, redis: RedisServer) -> None:
    """Flushed, then restarted empty, under load; each time one beat later the leader key is there again."""
    for loss in (redis.flush, redis.restart):
        loss()
        until(redis.has_leader, 15, f"a leader key after {loss.__name__}")
        until(
            lambda: len(redis.beating()) == cluster.nodes, 15, f"every node beats again after {loss.__name__}"
        )


def _stay_away(cluster: Cluster, submitter: Submitter, redis: RedisServer, measure: Measure) -> str:
    """Redis frozen for one minute, then gone for another; the coordinator is killed meanwhile. Its name."""
    began = boottime()
    redis.freeze()
    until(lambda: _redis_is_off(cluster), 40, "every node says that Redis is off for it")
    measure("Redis away: every node by PostgreSQL alone", boottime() - began)
    _batch_ends(submitter, cluster, measure, "Redis frozen")
    term, victim = cluster.term(), cluster.holder()
    killed = boottime()
    send(victim.agent, signal.SIGKILL)
    until(lambda: cluster.term() > term, 3 * GOAL_WITHOUT, "a coordinator without Redis")
    measure("Redis away, coordinator killed: next in office", boottime() - killed, goal=GOAL_WITHOUT)
    _batch_ends(submitter, cluster, measure, "Redis frozen, new coordinator")
    time.sleep(max(0.0, began + AWAY / 2 - boottime()))
    redis.stop()
    _batch_ends(submitter, cluster, measure, "Redis gone")
    # The outage's length is what is tested, so it is waited for.
    time.sleep(max(0.0, began + AWAY - boottime()))
    redis.start()
    until(lambda: not _redis_is_off(cluster, some=True), 40, "Redis counts again for every node")
    until(redis.has_leader, 15, "a leader key again")
    return victim.name


def _batch_ends(submitter: Submitter, cluster: Cluster, measure: Measure, name: str) -> None:
    started = boottime()
    ids = submitter.submit(list(mix(50, calm=False)))
    query = "SELECT count(*) FROM finished_jobs WHERE id = ANY (%s)"
    until(lambda: cluster.rows(query, ids)[0][0] == len(ids), 3 * GOAL_BATCH, f"50 jobs end: {name}")
    measure(f"{name}: 50 jobs end", boottime() - started, goal=GOAL_BATCH)


def _redis_is_off(cluster: Cluster, *, some: bool = False) -> bool:
    """True when every node (or `some` node) has said in PostgreSQL that Redis does not count for it."""
    states = [on for (on,) in cluster.rows("SELECT redis_on FROM beats")]
    return any(not on for on in states) if some else not any(states)


def _speed_is_back(submitter: Submitter, cluster: Cluster, measure: Measure) -> None:
    """With wake-ups again an idle submission starts at once."""
    job = submitter.one("echo", {"message": "back"})
    until(lambda: cluster.state(job) == "succeeded", 5, "one job after Redis is back")
    query = "SELECT extract(epoch FROM started_at - created_at)::float8 FROM finished_jobs WHERE id = %s"
    measure("Redis back: an idle job starts", cluster.rows(query, job)[0][0])
