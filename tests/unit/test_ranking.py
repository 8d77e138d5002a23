"""The order of the queue: who may overtake whom, and for how long (I7)."""

from __future__ import annotations

import heapq

from hypothesis import given
from hypothesis import strategies as st

from mutirao.domain.ranking import rank

# Whole seconds: exact in a float, so that the bound is tested to the second and not to a rounding.
times = st.integers(0, 2_000_000_000)
priorities = st.integers(0, 9)
agings = st.integers(0, 86_400)


@given(times, times, priorities, agings)
def test_within_a_priority_the_earlier_runs_first(first: int, second: int, priority: int, aging: int) -> None:
    assert (rank(first, priority, aging) < rank(second, priority, aging)) == (first < second)


@given(times, priorities, priorities, st.integers(1, 86_400))
def test_at_the_same_moment_the_more_urgent_runs_first(ready: int, one: int, other: int, aging: int) -> None:
    assert (rank(ready, one, aging) < rank(ready, other, aging)) == (one > other)


@given(times, st.one_of(st.integers(-2, 2), times), priorities, priorities, agings)
def test_one_is_overtaken_exactly_by_those_queued_within_the_bound(
    ready: int, beyond: int, mine: int, theirs: int, aging: int
) -> None:
    bound = (theirs - mine) * aging
    later = ready + bound + beyond
    assert (rank(later, theirs, aging) < rank(ready, mine, aging)) == (later - ready < bound)


@given(times, times, priorities, priorities)
def test_without_aging_the_order_is_that_of_arrival(ready: int, later: int, one: int, other: int) -> None:
    assert (rank(ready, one, 0.0) < rank(later, other, 0.0)) == (ready < later)


@given(st.integers(1_700_000_000_000_000, 2_500_000_000_000_000), priorities)
def test_microseconds_are_told_apart_far_into_the_century(microseconds: int, priority: int) -> None:
    assert rank(microseconds / 1e6, priority, 60.0) < rank((microseconds + 1) / 1e6, priority, 60.0)


@given(
    st.lists(st.tuples(st.integers(0, 5), priorities), min_size=1, max_size=200),
    st.integers(1, 20),
    st.integers(1, 30),
)
def test_in_a_backlog_nobody_is_overtaken_beyond_the_bound(
    arrivals: list[tuple[int, int]], aging: int, service: int
) -> None:
    """One server, jobs that arrive faster than it serves them, always the lowest rank first."""
    ahead: list[tuple[int, int, int]] = []
    now = 0
    for number, (gap, priority) in enumerate(arrivals):
        now += gap
        ahead.append((now, priority, number))
    queue: list[tuple[float, int, int, int]] = []
    clock = 0
    while ahead or queue:
        clock = max(clock, ahead[0][0]) if not queue else clock
        while ahead and ahead[0][0] <= clock:
            ready, priority, number = ahead.pop(0)
            heapq.heappush(queue, (rank(ready, priority, aging), number, ready, priority))
        _, _, ready, priority = heapq.heappop(queue)
        for _, _, left_ready, left_priority in queue:
            assert ready - left_ready <= max(0, priority - left_priority) * aging
        clock += service
