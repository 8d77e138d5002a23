"""Asking what may not answer: from a thread of its own, so that whoever wants to know waits only so long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from mutirao.errors import Unavailable
from mutirao.loop import Loop, boottime

_IDLE = 3600.0
T = TypeVar("T")


class Inquiry(Generic[T]):
    """One question; all who ask it at the same time share one answer."""

    def __init__(self, name: str, ask: Callable[[], T], timeout: float) -> None:
        self._ask = ask
        self._timeout = timeout
        self._answered = threading.Condition()
        self._asked_at = float("-inf")
        self._answer: T | Unavailable = Unavailable("was never asked")
        self._wanted = False
        self._loop = Loop(name, self._run_once)
        self._loop.start()

    def answer(self) -> T:
        """The answer to a question asked after this call; raises Unavailable, also if none comes in time."""
        since = boottime()
        with self._answered:
            self._wanted = True
            self._loop.wake()
            in_time = self._answered.wait_for(lambda: self._asked_at >= since, self._timeout)
            answer = self._answer if in_time else Unavailable(f"did not answer within {self._timeout:g} s")
        if isinstance(answer, Unavailable):
            raise answer
        return answer

    def close(self) -> None:
        """Ends the thread, or leaves it to the process's end when it is stuck."""
        self._loop.stop(timeout=0.5)

    def _run_once(self) -> float:
        with self._answered:
            if not self._wanted:
                return _IDLE
            self._wanted = False
        asked_at = boottime()
        answer: T | Unavailable
        try:
            answer = self._ask()
        except Unavailable as error:
            answer = error
        with self._answered:
            self._asked_at, self._answer = asked_at, answer
            self._answered.notify_all()
        return 0.0
