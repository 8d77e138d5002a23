"""A node's own right to execute: the deadline, and when Redis has a say in it (DESIGN §5)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutirao.domain.liveness import LeaseSettings, RedisSwitch, SelfLease, deadline

TIMES = LeaseSettings(lease=10.0, guard=2.0, store_outage=60.0)


@pytest.mark.parametrize(
    ("pg", "redis", "expected"),
    [
        (100.0, None, 109.0),
        (100.0, 90.0, 109.0),
        (100.0, 105.0, 114.0),
        (100.0, 149.0, 158.0),
        (100.0, 150.0, 159.0),
        (100.0, 500.0, 159.0),
    ],
)
def test_deadline_is_a_margin_before_the_lease_and_before_store_outage(
    pg: float, redis: float | None, expected: float
) -> None:
    assert deadline(pg, redis, TIMES) == expected


@given(st.floats(0, 1e9), st.none() | st.floats(0, 1e9))
def test_a_node_stops_before_any_observer_may_act(pg: float, redis: float | None) -> None:
    stops = deadline(pg, redis, TIMES)
    latest = max(pg, redis or 0.0)
    assert stops < latest + TIMES.lease + TIMES.guard
    assert stops < pg + TIMES.store_outage + TIMES.guard
    assert stops > pg or math.isclose(stops, pg, rel_tol=1e-6)


def lively_switch() -> RedisSwitch:
    """A switch with both stores accepted at 100, `on` acknowledged."""
    switch = RedisSwitch(99.0)
    switch.redis_accepted(100.0)
    assert switch.sending(100.0)
    switch.pg_accepted(100.0, redis_on=True)
    return switch


def test_redis_counts_once_on_was_acknowledged() -> None:
    switch = RedisSwitch(99.0)
    switch.redis_accepted(100.0)
    assert switch.sending(100.0)
    assert not switch.counts
    switch.pg_accepted(100.0, redis_on=True)
    assert switch.counts


@pytest.mark.parametrize(
    ("now", "pg", "on"),
    [(110.0, 109.0, True), (110.1, 109.0, False), (110.1, 108.1, False), (110.1, 108.0, True)],
)
def test_off_after_ten_seconds_of_silence_if_a_postgres_beat_was_accepted_in_the_last_two(
    now: float, pg: float, on: bool
) -> None:
    switch = lively_switch()
    switch.pg_accepted(pg, redis_on=True)
    assert switch.sending(now) is on
    assert switch.counts is on


def test_from_sending_off_redis_counts_no_more_even_if_the_answer_is_lost() -> None:
    switch = lively_switch()
    switch.pg_accepted(110.0, redis_on=True)
    assert not switch.sending(110.5)
    switch.redis_accepted(110.6)
    assert not switch.counts


def test_redis_counts_again_only_after_on_was_acknowledged() -> None:
    switch = lively_switch()
    switch.pg_accepted(110.0, redis_on=True)
    assert not switch.sending(110.5)
    switch.pg_accepted(110.5, redis_on=False)
    assert not switch.counts
    switch.redis_accepted(111.0)
    assert switch.sending(111.5)
    assert not switch.counts
    switch.pg_accepted(111.5, redis_on=True)
    assert switch.counts


def test_an_old_on_acknowledged_after_off_was_sent_does_not_count() -> None:
    switch = lively_switch()
    switch.pg_accepted(110.0, redis_on=True)
    assert not switch.sending(110.5)
    switch.pg_accepted(110.2, redis_on=True)
    assert not switch.counts


def test_off_stays_until_redis_is_accepted_again() -> None:
    switch = lively_switch()
    switch.pg_accepted(110.0, redis_on=True)
    sent = [switch.sending(110.5 + second) for second in range(50)]
    assert not any(sent)


def test_a_node_that_never_reached_redis_says_so_after_ten_seconds() -> None:
    switch = RedisSwitch(0.0)
    sent = {}
    for second in range(13):
        flag = switch.sending(float(second))
        switch.pg_accepted(float(second), flag)
        sent[second] = flag
    assert sent == {second: second <= 10 for second in range(13)}


def test_lease_is_carried_by_either_store_and_sending_off_may_shorten_it() -> None:
    lease = SelfLease(TIMES, 100.0)
    assert lease.deadline() == 109.0
    assert lease.sending(101.0)
    lease.pg_accepted(101.0, redis_on=True)
    lease.redis_accepted(104.0)
    assert lease.deadline() == 113.0
    for second in range(105, 115):
        flag = lease.sending(second)
        lease.pg_accepted(second, flag)
    lease.redis_accepted(104.0)
    assert lease.deadline() == 123.0
    assert not lease.sending(115.0)
    assert lease.deadline() == 123.0
    lease.redis_accepted(130.0)
    assert lease.deadline() == 123.0


def test_a_late_answer_never_moves_the_deadline_back() -> None:
    lease = SelfLease(TIMES, 100.0)
    lease.pg_accepted(105.0, redis_on=True)
    lease.pg_accepted(103.0, redis_on=True)
    lease.redis_accepted(106.0)
    lease.redis_accepted(101.0)
    assert lease.deadline() == 115.0
