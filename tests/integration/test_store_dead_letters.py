"""Dead letters: a replay is one caller's, raises the bound and says so; a discard is for good (I4, I5)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from mutirao.domain.job import Outcome, State
from mutirao.store.execution import Claim
from tests.support.checker import check
from tests.support.stage import Node, Stage, at_once


@pytest.fixture
def stage(postgres_dsn: str) -> Iterator[Stage]:
    with Stage(postgres_dsn) as stage:
        yield stage
        assert check(postgres_dsn) == []


def dead(stage: Stage, node: Node, count: int = 1, **fields: object) -> list[Claim]:
    claims = stage.running(node, count, **fields)
    for claim in claims:
        node.end(claim, Outcome.FAILED)
    return claims


def test_of_twenty_replays_at_once_one_wins(stage: Stage) -> None:
    (letter,) = dead(stage, stage.node())
    won = at_once([partial(stage.jobs.replay, [letter.job], f"person {i}") for i in range(20)])
    assert sorted(map(len, won)) == [0] * 19 + [1]
    assert stage.steps(letter.job).count(("replayed", "dead", "queued")) == 1


def test_a_replay_raises_the_bound_and_the_count_goes_on(stage: Stage) -> None:
    node = stage.node()
    (claim,) = dead(stage, node, max_retries=1)
    for life in (1, 2, 3):
        assert stage.jobs.replay([claim.job], "somebody") == {claim.job}
        assert stage.row(claim.job).max_attempts == claim.attempt + 2
        said = stage.rows(
            "SELECT detail->>'max_attempts' AS bound FROM audit WHERE event = 'replayed' ORDER BY id"
        )
        assert len(said) == life and int(said[-1].bound) == claim.attempt + 2
        for _ in range(2):
            before = claim.attempt
            (claim,) = stage.start(node, [claim.job])
            assert claim.attempt == before + 1
            node.end(claim, Outcome.FAILED, delay=0.0)
        assert stage.state(claim.job) == State.DEAD
    rows = stage.rows("SELECT attempt, outcome FROM attempts ORDER BY attempt")
    assert rows == [(number, "failed") for number in range(1, claim.attempt + 1)]


def test_a_replay_grants_one_full_set_of_attempts_however_early_the_job_died(stage: Stage) -> None:
    node = stage.node()
    (claim,) = stage.running(node, max_retries=5)
    node.end(claim, Outcome.REFUSED)
    stage.jobs.replay([claim.job], "somebody")
    row = stage.row(claim.job)
    assert (row.attempt, row.max_attempts) == (1, 1 + 6)


def test_only_dead_letters_are_replayed(stage: Stage) -> None:
    node = stage.node()
    done, running = stage.running(node, 2)
    node.end(done)
    (queued,) = stage.submit()
    (letter,) = dead(stage, node)
    (cancelled,) = stage.submit()
    stage.jobs.cancel([cancelled], "somebody")
    everything = [done.job, running.job, queued, letter.job, cancelled]
    assert stage.jobs.replay(everything, "somebody") == {letter.job}
    assert stage.jobs.discard(everything, "somebody") == frozenset()


def test_what_is_discarded_stays_dead(stage: Stage) -> None:
    (letter,) = dead(stage, stage.node())
    wins = at_once([partial(stage.jobs.discard, [letter.job], "somebody")] * 5)
    assert sorted(map(len, wins)) == [0, 0, 0, 0, 1]
    assert stage.jobs.replay([letter.job], "somebody") == frozenset()
    assert stage.state(letter.job) == State.DEAD
    assert [event for event, *_ in stage.steps(letter.job)].count("discarded") == 1


def test_replay_against_discard_is_one_or_the_other(stage: Stage) -> None:
    for letter in dead(stage, stage.node(), 30):
        replayed, discarded = at_once(
            [partial(stage.jobs.replay, [letter.job], "a"), partial(stage.jobs.discard, [letter.job], "b")]
        )
        assert len(replayed) + len(discarded) == 1
        assert stage.state(letter.job) == (State.QUEUED if replayed else State.DEAD)


def test_replays_of_the_same_jobs_in_any_order_do_not_block_each_other(stage: Stage) -> None:
    jobs = [letter.job for letter in dead(stage, stage.node(), 20)]
    won = at_once([partial(stage.jobs.replay, order, "me") for order in (jobs, jobs[::-1], sorted(jobs))])
    assert sum(map(len, won)) == len(jobs)
