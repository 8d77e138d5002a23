"""Keys that are granted once, and progress: only for attempts that run, here, now."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID, uuid4

import psycopg
import pytest

from mutirao.domain.job import Outcome, State
from mutirao.errors import Superseded
from mutirao.store.execution import Claim
from mutirao.store.once import Wish
from tests.support.stage import Node, Stage, at_once


@pytest.fixture
def stage(postgres_dsn: str) -> Iterator[Stage]:
    with Stage(postgres_dsn) as stage:
        yield stage


def wish(claim: Claim, key: str = "paid", token: UUID | None = None) -> Wish:
    return Wish(claim.job, claim.attempt, key, token or uuid4())


def ask(node: Node, *wishes: Wish) -> list[bool | None]:
    answers = node.once.grant(wishes)
    return [answers[each.token] for each in wishes]


def test_one_wish_of_a_key_is_granted_and_the_same_question_gets_the_same_answer(stage: Stage) -> None:
    node = stage.node()
    claim, other = stage.running(node, 2)
    first, second = wish(claim), wish(claim)
    assert ask(node, first, wish(other), wish(claim, "told")) == [True, True, True]
    assert ask(node, second, first) == [False, True]
    assert ask(node, second) == [False]
    assert stage.count("once_keys") == 3


def test_two_wishes_of_one_batch_have_one_winner(stage: Stage) -> None:
    node = stage.node()
    (claim,) = stage.running(node)
    assert sorted(map(bool, ask(node, *[wish(claim) for _ in range(10)]))) == [False] * 9 + [True]


def test_twenty_at_once_have_one_winner(stage: Stage) -> None:
    node = stage.node()
    (claim,) = stage.running(node)
    answers = at_once([lambda: ask(node, wish(claim))[0] for _ in range(20)])
    assert sorted(map(bool, answers)) == [False] * 19 + [True]


def test_a_key_stays_taken_in_later_attempts_and_replays(stage: Stage) -> None:
    node = stage.node()
    (claim,) = stage.running(node, max_retries=1)
    assert ask(node, wish(claim)) == [True]
    assert node.end(claim, Outcome.FAILED, delay=0.0).applied == {claim.key: State.QUEUED}
    (second,) = stage.start(node, [claim.job])
    assert ask(node, wish(second), wish(second, "told")) == [False, True]
    assert node.end(second, Outcome.FAILED).applied == {second.key: State.DEAD}
    assert stage.jobs.replay([claim.job], "somebody") == {claim.job}
    (third,) = stage.start(node, [claim.job])
    assert ask(node, wish(third), wish(third, "told")) == [False, False]


def test_an_attempt_that_is_over_is_granted_nothing(stage: Stage) -> None:
    node, other = stage.node(), stage.node()
    ended, running = stage.running(node, 2)
    node.end(ended)
    ahead = Wish(running.job, running.attempt + 1, "paid", uuid4())
    assert ask(node, wish(ended), ahead, wish(running, "told")) == [None, None, True]
    assert ask(other, wish(running)) == [None]
    assert ask(node, wish(running)) == [True], "what was refused has taken no key"


def test_a_superseded_incarnation_is_granted_nothing(stage: Stage) -> None:
    node = stage.node()
    (claim,) = stage.running(node)
    stage.node(node.id, node.incarnation)
    with pytest.raises(Superseded):
        ask(node, wish(claim))
    assert stage.count("once_keys") == 0


def test_an_attempt_cannot_end_while_it_is_granted_a_key(stage: Stage) -> None:
    """The grant waits for somebody else's key; the end waits for the grant."""
    node = stage.node()
    (claim,) = stage.running(node)
    with psycopg.connect(stage.dsn) as somebody:
        somebody.execute("SET search_path = mutirao")
        values = (claim.job, "paid", 0, uuid4())
        somebody.execute(
            "INSERT INTO once_keys (job_id, key, attempt, token) VALUES (%s, %s, %s, %s)", values
        )
        with stage.later(lambda: ask(node, wish(claim))) as asked:
            stage.blocked()
            with stage.later(lambda: node.end(claim)) as end:
                stage.blocked(2)
                somebody.rollback()
    assert asked.result(5.0) == [True]
    assert end.result(5.0).applied == {claim.key: State.SUCCEEDED}


def told(stage: Stage, claim: Claim) -> tuple[float | None, str | None]:
    (row,) = stage.rows("SELECT progress, progress_note FROM jobs WHERE id = %s", claim.job)
    return row.progress, row.progress_note


def test_progress_is_noted_for_what_runs_and_forgotten_with_the_attempt(stage: Stage) -> None:
    node, other = stage.node(), stage.node()
    claim, second = stage.running(node, 2)
    node.once.note_progress({claim.key: (0.0, "zwölf"), second.key: (1.0, "")})
    assert (told(stage, claim), told(stage, second)) == ((0.0, "zwölf"), (1.0, None))
    other.once.note_progress({claim.key: (0.5, "mine")})
    node.once.note_progress({(claim.job, 2): (0.5, "ahead")})
    assert told(stage, claim) == (0.0, "zwölf")
    node.end(claim, Outcome.FAILED, delay=0.0)
    assert told(stage, claim) == (None, None)


def test_progress_waits_for_nobody(stage: Stage) -> None:
    node = stage.node()
    claim, second = stage.running(node, 2)
    with stage.database.transaction() as tx:
        tx.rows("SELECT 1 FROM jobs WHERE id = %(id)s FOR UPDATE", {"id": claim.job})
        assert node.once.note_progress({claim.key: (0.5, ""), second.key: (0.25, "")}) == {second.key}
    assert (told(stage, claim), told(stage, second)) == ((None, None), (0.25, None))
