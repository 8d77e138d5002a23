"""Ends of attempts on their way to PostgreSQL: bounded batches, bounded memory, each exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from mutirao.agent.ends import BATCH_BYTES, LAST_LINES, WAITING_OUTPUT, Ends
from mutirao.domain.job import Outcome
from mutirao.errors import StoreUnavailable
from mutirao.store.execution import Ack, Acknowledged
from mutirao.tail import KEPT, Output
from tests.support.pgproxy import proxy
from tests.support.stage import Node, Stage, ack


class Settled:
    """The batches that were settled, in order."""

    def __init__(self) -> None:
        self.batches: list[list[Ack]] = []
        self.refused = 0

    def __call__(self, acks: Sequence[Ack], answer: Acknowledged) -> None:
        self.batches.append(list(acks))
        self.refused += len(answer.refused)


@pytest.fixture
def stage(postgres_dsn: str) -> Iterator[Stage]:
    with Stage(postgres_dsn) as stage:
        yield stage


@pytest.fixture
def node(stage: Stage) -> Node:
    return stage.node()


def outputs(stage: Stage) -> list[tuple[int, int]]:
    return [
        (row.kept, row.output_dropped)
        for row in stage.rows("SELECT length(output) AS kept, output_dropped FROM attempts ORDER BY seconds")
    ]


def test_batches_are_bounded_by_bytes(stage: Stage, node: Node) -> None:
    settled = Settled()
    ends = Ends(node.store, settled)
    claims = stage.running(node, 150)
    ends.add([ack(claim, output=Output(b"x" * KEPT, 0)) for claim in claims])
    assert len(ends) == 150
    ends.acknowledge()
    assert [len(batch) for batch in settled.batches] == [64, 64, 22]
    assert 64 * KEPT == BATCH_BYTES
    assert (len(ends), settled.refused, outputs(stage)) == (0, 0, [(KEPT, 0)] * 150)


def test_what_waits_for_postgresql_is_bounded_and_says_what_it_dropped(stage: Stage, node: Node) -> None:
    settled = Settled()
    ends = Ends(node.store, settled)
    claims = stage.running(node, 300)
    acks = [ack(claim, output=Output(b"x" * KEPT, 5)) for claim in claims]
    ends.add(acks)
    ends.acknowledge()
    whole = WAITING_OUTPUT // KEPT
    cut = (LAST_LINES, 5 + KEPT - LAST_LINES)
    assert sorted(outputs(stage), reverse=True) == [(KEPT, 5)] * whole + [cut] * (300 - whole)
    (claim,) = stage.running(node)
    ends.add([ack(claim, output=Output(b"x" * KEPT, 5))])
    ends.acknowledge()
    assert settled.batches[-1][0].output == Output(b"x" * KEPT, 5), "there is room again"


def test_a_batch_that_fails_is_told_again_before_any_other(stage: Stage, postgres_dsn: str) -> None:
    with proxy(postgres_dsn) as link, Stage(link.dsn) as far:
        node = far.node()
        first, second = far.running(node, 2)
        settled = Settled()
        ends = Ends(node.store, settled)
        ends.add([ack(first)])
        lost = link.lose("answer", "-- Ends attempts")
        with pytest.raises(StoreUnavailable):
            ends.acknowledge()
        assert lost.is_set()
        ends.add([ack(second)])
        assert ends.keys() == {first.key, second.key}
        ends.acknowledge()
    assert [[each.key for each in batch] for batch in settled.batches] == [[first.key], [second.key]]
    assert settled.refused == 0


def test_a_value_that_cannot_be_stored_holds_up_nobody_and_keeps_its_output(stage: Stage, node: Node) -> None:
    settled = Settled()
    ends = Ends(node.store, settled)
    claims = stage.running(node, 7)
    bad = claims[4]
    ends.add(
        [
            ack(claim, result='"\\u0000"' if claim is bad else "1", output=Output(b"said", 0))
            for claim in claims
        ]
    )
    ends.acknowledge()
    assert len(ends) == settled.refused == 0
    found = {row.job_id: row for row in stage.rows("SELECT job_id, outcome, output FROM attempts")}
    assert {row.output for row in found.values()} == {"said"}
    assert found.pop(bad.job).outcome == Outcome.REFUSED
    assert {row.outcome for row in found.values()} == {Outcome.SUCCEEDED}
