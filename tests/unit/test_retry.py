"""What follows a failed attempt: bounded in number (I5) and in waiting, and truly spread."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutirao.domain.job import Backoff, Outcome
from mutirao.domain.retry import Attempt, ceiling, delay

FINAL = [Outcome.SUCCEEDED, Outcome.REFUSED, Outcome.CANCELLED]
AT_ONCE = [Outcome.NODE_LOST, Outcome.INTERRUPTED]
FAILURES = [Outcome.FAILED, Outcome.TIMED_OUT, Outcome.RUNNER_DIED]

seconds = st.floats(min_value=0.0, max_value=1e9, allow_subnormal=False)
backoffs = st.builds(Backoff, base=seconds, cap=seconds)
randoms = st.integers().map(random.Random)


@given(backoffs, st.integers(1, 10_000))
def test_the_ceiling_doubles_with_each_failure_up_to_the_cap(backoff: Backoff, failures: int) -> None:
    exact = min(Fraction(backoff.cap), Fraction(backoff.base) * 2 ** (failures - 1))
    # Beyond 62 doublings nothing that is not zero is still below a cap of years.
    assert ceiling(backoff, failures) == pytest.approx(float(exact)) or backoff.base < 1e-9


@given(backoffs, st.integers(1, 10_000))
def test_the_ceiling_never_falls_and_never_exceeds_the_cap(backoff: Backoff, failures: int) -> None:
    assert 0.0 <= ceiling(backoff, failures) <= ceiling(backoff, failures + 1) <= backoff.cap


@given(backoffs, st.sampled_from(FAILURES), st.integers(1, 1000), st.integers(1, 1000), randoms)
def test_a_failure_with_attempts_left_waits_between_nothing_and_the_ceiling(
    backoff: Backoff, outcome: Outcome, number: int, left: int, uniform: random.Random
) -> None:
    wait = delay(Attempt(number, number + left, outcome), backoff, uniform)
    assert wait is not None
    assert 0.0 <= wait <= ceiling(backoff, number)


@pytest.mark.parametrize("failures", [1, 2, 5, 20])
def test_the_jitter_is_full_and_no_whole_number(failures: int) -> None:
    backoff = Backoff(base=0.5, cap=30.0)
    top = ceiling(backoff, failures)
    uniform = random.Random(7)
    waits = [delay(Attempt(failures, 100, Outcome.FAILED), backoff, uniform) for _ in range(2000)]
    shares = [wait / top for wait in waits if wait is not None]
    assert len(set(shares)) == 2000
    for tenth in range(10):
        assert sum(tenth <= share * 10 < tenth + 1 for share in shares) > 100


@given(backoffs, st.sampled_from(list(Outcome)), st.integers(1, 1000), st.integers(1, 1000), randoms)
def test_it_ends_where_it_must_and_nowhere_else(
    backoff: Backoff, outcome: Outcome, number: int, bound: int, uniform: random.Random
) -> None:
    ended = delay(Attempt(number, bound, outcome), backoff, uniform) is None
    assert ended == (outcome in FINAL or number >= bound)


@given(st.sampled_from(list(Outcome)), st.floats(0, 1e6), randoms)
def test_a_handler_that_gives_up_ends_the_job_whatever_else_it_says(
    outcome: Outcome, after: float, uniform: random.Random
) -> None:
    assert delay(Attempt(1, 99, outcome, retry_after=after, discard=True), Backoff(), uniform) is None


@given(st.sampled_from(FAILURES), st.floats(-1e6, 1e6), randoms)
def test_a_handlers_own_wait_is_kept_but_never_in_the_past(
    outcome: Outcome, after: float, uniform: random.Random
) -> None:
    assert delay(Attempt(1, 2, outcome, retry_after=after), Backoff(), uniform) == max(0.0, after)


@given(st.floats(0, 1e6), randoms)
def test_a_handlers_own_wait_does_not_raise_the_bound(after: float, uniform: random.Random) -> None:
    assert delay(Attempt(4, 4, Outcome.FAILED, retry_after=after), Backoff(), uniform) is None


@pytest.mark.parametrize("outcome", AT_ONCE)
def test_what_was_not_the_handlers_fault_is_tried_again_at_once(outcome: Outcome) -> None:
    assert delay(Attempt(3, 4, outcome), Backoff(base=60.0), random.Random(1)) == 0.0


@given(st.integers(0, 20), st.lists(st.sampled_from(FAILURES + AT_ONCE), min_size=25), randoms)
def test_a_job_that_never_succeeds_is_started_exactly_max_retries_plus_one_times(
    max_retries: int, outcomes: list[Outcome], uniform: random.Random
) -> None:
    starts = 1
    while delay(Attempt(starts, max_retries + 1, outcomes[starts]), Backoff(), uniform) is not None:
        starts += 1
    assert starts == max_retries + 1
