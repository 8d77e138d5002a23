"""One question at a time, however many ask it, and nobody waits longer than is said."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from mutirao.errors import Unavailable
from mutirao.services.inquiry import Inquiry
from tests.support.waiting import until


class Oracle:
    """Answers with how often it was asked, once it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.entered = threading.Semaphore(0)
        self.may_answer = threading.Semaphore(0)

    def __call__(self) -> int:
        self.asked += 1
        self.entered.release()
        self.may_answer.acquire()
        return self.asked


@contextmanager
def inquiry(ask: object, timeout: float = 20.0) -> Iterator[Inquiry[int]]:
    made: Inquiry[int] = Inquiry("test", ask, timeout)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.close()


def test_all_who_ask_meanwhile_share_the_next_answer_never_an_older_one() -> None:
    oracle = Oracle()
    with inquiry(oracle) as made, ThreadPoolExecutor(9) as pool:
        first = pool.submit(made.answer)
        oracle.entered.acquire()
        others = [pool.submit(made.answer) for _ in range(8)]
        until(lambda: len(made._answered._waiters) == 9, 20.0, "everybody waits")  # type: ignore[attr-defined]
        oracle.may_answer.release(2)
        assert first.result() in (1, 2)
        assert {other.result() for other in others} == {2}
        assert oracle.asked == 2


def test_no_answer_in_time_is_said_and_the_next_question_is_asked_all_the_same() -> None:
    oracle = Oracle()
    with inquiry(oracle, timeout=0.05) as made:
        with pytest.raises(Unavailable, match="did not answer within"):
            made.answer()
        oracle.may_answer.release(1000)
        made._timeout = 20.0
        assert made.answer() >= 2


def test_why_there_is_no_answer_is_told_to_everybody() -> None:
    def refuse() -> int:
        raise Unavailable("the server is away")

    with inquiry(refuse) as made, ThreadPoolExecutor(4) as pool:
        for asked in [pool.submit(made.answer) for _ in range(4)]:
            with pytest.raises(Unavailable, match="the server is away"):
                asked.result()
