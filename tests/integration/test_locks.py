"""Execution locks on a real server: a higher attempt wins, compared as a number; nobody deletes another's."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
import redis

from mutirao.coordination.connection import connect
from mutirao.coordination.keys import DEFAULT as keys
from mutirao.coordination.locks import ExecutionLocks
from mutirao.errors import CoordinationUnavailable
from tests.support.waiting import until

A = "6f1e:1"
B = "7c2d:4"
JOB = UUID(int=1)


@pytest.fixture
def client(redis_url: str) -> redis.Redis:
    return connect(redis_url)


@pytest.fixture
def locks(client: redis.Redis) -> ExecutionLocks:
    return ExecutionLocks(client, 12.0)


def holder(client: redis.Redis, job: UUID = JOB) -> object:
    return client.get(keys.job_lock(job))


def test_a_free_lock_is_taken_for_its_time_to_live(client: redis.Redis, locks: ExecutionLocks) -> None:
    assert locks.acquire([(JOB, 1)], A) == [True]
    assert holder(client) == "1:6f1e:1"
    assert 11_000 < int(client.pttl(keys.job_lock(JOB))) <= 12_000


def test_the_same_value_is_success_and_prolongs(client: redis.Redis, locks: ExecutionLocks) -> None:
    ExecutionLocks(client, 1.0).acquire([(JOB, 1)], A)
    assert locks.acquire([(JOB, 1)], A) == [True]
    assert int(client.pttl(keys.job_lock(JOB))) > 1_000


@pytest.mark.parametrize(("held", "wanted"), [(9, 10), (1, 2), (99, 100), (2, 10)])
def test_a_higher_attempt_overwrites(
    client: redis.Redis, locks: ExecutionLocks, held: int, wanted: int
) -> None:
    locks.acquire([(JOB, held)], A)
    assert locks.acquire([(JOB, wanted)], B) == [True]
    assert holder(client) == f"{wanted}:{B}"
    assert locks.renew([(JOB, held)], A) == [False]
    assert holder(client) == f"{wanted}:{B}"


@pytest.mark.parametrize(("held", "wanted"), [(10, 9), (2, 1), (3, 3)])
def test_a_lower_attempt_or_another_owners_same_one_is_refused(
    client: redis.Redis, locks: ExecutionLocks, held: int, wanted: int
) -> None:
    locks.acquire([(JOB, held)], A)
    ttl = int(client.pttl(keys.job_lock(JOB)))
    assert ExecutionLocks(client, 900.0).acquire([(JOB, wanted)], B) == [False]
    assert holder(client) == f"{held}:{A}"
    assert int(client.pttl(keys.job_lock(JOB))) <= ttl


def test_the_same_node_in_another_incarnation_is_another_owner(locks: ExecutionLocks) -> None:
    locks.acquire([(JOB, 3)], "6f1e:1")
    assert locks.acquire([(JOB, 3)], "6f1e:2") == [False]
    assert locks.acquire([(JOB, 3)], "6f1e:10") == [False]


def test_a_batch_is_answered_claim_by_claim_in_order(client: redis.Redis, locks: ExecutionLocks) -> None:
    jobs = [uuid4() for _ in range(600)]
    taken = jobs[::3]
    assert all(locks.acquire([(job, 5) for job in taken], B))
    answers = locks.acquire([(job, 5) for job in jobs], A)
    assert answers == [position % 3 != 0 for position in range(600)]
    released = locks.release([(job, 5) for job in jobs], A)
    assert released == answers
    assert all(holder(client, job) == f"5:{B}" for job in taken)


def test_a_lost_lock_is_set_again_by_renewal(client: redis.Redis, locks: ExecutionLocks) -> None:
    locks.acquire([(JOB, 2)], A)
    client.flushall()
    assert locks.renew([(JOB, 2)], A) == [True]
    assert holder(client) == f"2:{A}"


def test_a_expires_b_acquires_a_releases_and_b_keeps_it(client: redis.Redis, locks: ExecutionLocks) -> None:
    ExecutionLocks(client, 0.02).acquire([(JOB, 1)], A)
    until(lambda: holder(client) is None, 5, "the lock expired", every=0.01)
    assert locks.acquire([(JOB, 1)], B) == [True]
    assert locks.release([(JOB, 1)], A) == [False]
    assert locks.renew([(JOB, 1)], A) == [False]
    assert holder(client) == f"1:{B}"


def test_a_value_that_is_no_lock_blocks_nobody_for_ever(client: redis.Redis, locks: ExecutionLocks) -> None:
    client.set(keys.job_lock(JOB), "left by something else")
    assert locks.acquire([(JOB, 1)], A) == [True]
    assert holder(client) == f"1:{A}"


def test_nothing_to_do_asks_nothing() -> None:
    locks = ExecutionLocks(connect("redis://127.0.0.1:1"), 12.0)
    assert locks.acquire([], A) == locks.renew([], A) == locks.release([], A) == []
    with pytest.raises(CoordinationUnavailable):
        locks.acquire([(JOB, 1)], A)


def test_scripts_forgotten_by_the_server_are_loaded_again(client: redis.Redis, locks: ExecutionLocks) -> None:
    locks.acquire([(JOB, 1)], A)
    client.script_flush()
    assert locks.renew([(JOB, 1)], A) == [True]
