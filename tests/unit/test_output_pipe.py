"""The agent's end of a runner's output: marks found wherever they fall, and no byte of them shown."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from mutirao.agent.output import ROOM, OutputPipe
from mutirao.agent.shared import Shared
from mutirao.tail import KEPT, Output


class Ends:
    """Both ends of a pipe, and the words that they share."""

    def __init__(self) -> None:
        self.file = Shared.create(1)
        self.shared = Shared(self.file)
        self.pipe = OutputPipe(self.shared, 0, bytearray(ROOM))
        self.theirs = self.pipe.open()

    def write(self, data: bytes) -> None:
        assert os.write(self.theirs, data) == len(data)

    def hang_up(self) -> None:
        os.close(self.theirs)
        self.theirs = -1


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.pipe.close()
    if made.theirs >= 0:
        made.hang_up()
    made.shared.close()
    os.close(made.file)


def test_what_is_before_each_mark_is_told_apart(ends: Ends) -> None:
    mark = ends.pipe.mark
    ends.write(b"one" + mark + mark + b"three" + mark + b"rest")
    assert ends.pipe.until_mark() == Output(b"one", 0)
    assert ends.pipe.until_mark() is None, "nothing was written before the second"
    assert ends.pipe.until_mark() == Output(b"three", 0)
    ends.hang_up()
    assert ends.pipe.rest() == Output(b"rest", 0)
    assert ends.pipe.rest() is None


def test_a_mark_is_found_wherever_a_read_cuts_it(ends: Ends) -> None:
    mark = ends.pipe.mark
    for cut in range(len(mark) + 1):
        ends.write(b"before" + mark[:cut])
        assert ends.pipe.read()
        ends.write(mark[cut:] + b"after")
        assert ends.pipe.until_mark() == Output(b"before", 0)
        ends.write(mark)
        assert ends.pipe.until_mark() == Output(b"after", 0)


def test_what_only_begins_like_a_mark_is_output(ends: Ends) -> None:
    part = ends.pipe.mark[:-1]
    ends.write(part)
    assert ends.pipe.read()
    ends.write(b"!" + part)
    assert ends.pipe.read()
    ends.hang_up()
    assert ends.pipe.rest() == Output(part + b"!" + part, 0)


def test_the_dead_ones_rest_is_all_that_nobody_has_asked_for(ends: Ends) -> None:
    """A runner killed after it had set a mark, and before it reported."""
    ends.write(b"a" * KEPT + ends.pipe.mark)
    assert ends.pipe.read()
    ends.write(b"b" * 10)
    ends.hang_up()
    assert ends.pipe.rest() == Output(b"a" * (KEPT - 10) + b"b" * 10, 10)


def test_bytes_read_are_counted_and_a_reader_is_seen_at_work(ends: Ends) -> None:
    assert ends.shared.drained(0) == 0
    ends.write(b"12345")
    assert ends.pipe.read()
    assert ends.shared.drained(0) == 10
    assert not ends.pipe.read()
    assert ends.shared.drained(0) == 10, "even, and unchanged: nobody reads, and nothing was read"


def test_a_new_runner_begins_with_nothing_of_the_old_one(ends: Ends) -> None:
    former = ends.pipe.mark
    ends.write(b"old" + former + b"more")
    assert ends.pipe.read()
    ends.hang_up()
    ends.theirs = ends.pipe.open()
    assert ends.shared.drained(0) == 0
    assert ends.pipe.mark != former
    ends.write(b"new" + former)
    ends.hang_up()
    assert ends.pipe.rest() == Output(b"new" + former, 0)
