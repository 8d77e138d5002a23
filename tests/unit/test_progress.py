"""Records in shared memory: one for each runner, whole or not there."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from mutirao.agent import progress
from mutirao.agent.progress import Progress
from mutirao.agent.shared import RECORD, Shared


@pytest.fixture
def shared() -> Iterator[Shared]:
    descriptor = Shared.create(3)
    made = Shared(descriptor)
    yield made
    made.close()
    os.close(descriptor)


@pytest.mark.parametrize("said", [Progress(0.0, ""), Progress(1.0, "é😀\n"), Progress(0.1, "😀" * 500)])
def test_what_is_written_is_read_for_that_task_alone(shared: Shared, said: Progress) -> None:
    assert progress.read(shared, 1, 7) is None
    progress.write(shared, 1, 7, said)
    assert progress.read(shared, 1, 7) == said
    assert [progress.read(shared, 1, 8), progress.read(shared, 0, 7), progress.read(shared, 2, 7)] == [
        None
    ] * 3


def test_runners_do_not_write_into_each_others_words_and_records(shared: Shared) -> None:
    for runner in range(3):
        shared.occupy(runner, 10 + runner, 20 + runner)
        shared.set_drained(runner, 30 + runner)
        shared.cancel(runner, 40 + runner)
        progress.write(shared, runner, 10 + runner, Progress(runner / 4, "x" * 500))
    shared.deadline, shared.fences = 5, 6
    assert (shared.deadline, shared.fences) == (5, 6)
    for runner in range(3):
        assert shared.slot(runner) == (10 + runner, 20 + runner)
        assert (shared.drained(runner), shared.cancelled(runner)) == (30 + runner, 40 + runner)
        assert progress.read(shared, runner, 10 + runner) == Progress(runner / 4, "x" * 500)


def test_a_record_that_is_being_written_is_not_read(shared: Shared) -> None:
    progress.write(shared, 0, 7, Progress(0.25, "before" * 50))
    before = shared.record(0)
    progress.write(shared, 0, 7, Progress(0.75, "after!" * 50))
    after = shared.record(0)
    for cut in range(1, 300):
        mixed = after[:cut] + before[cut:]
        shared.note(0, mixed)
        if mixed not in (before, after):
            assert progress.read(shared, 0, 7) is None


def test_a_record_that_says_it_is_longer_than_it_can_be_is_not_read(shared: Shared) -> None:
    progress.write(shared, 2, 7, Progress(0.5, ""))
    record = bytearray(shared.record(2))
    record[20:22] = b"\xff\xff"
    shared.note(2, bytes(record[:RECORD]))
    assert progress.read(shared, 2, 7) is None
