"""What runners have asked and wait to hear."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import NamedTuple

from mutirao.agent.frames import Question, Task, pack_answer
from mutirao.agent.ledger import Ledger
from mutirao.agent.seat import Seat


class Asked(NamedTuple):
    """A runner waits to hear whether it is the first to ask for the key."""

    seat: Seat
    stream: socket.socket
    number: int
    task: Task
    key: str


class Questions:
    """Questions as they come in, and the way back of their answers; for one thread at a time."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: list[Asked] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(self, seat: Seat, question: Question) -> None:
        """Takes in a question; where the attempt is over, it is answered at once."""
        task = self._ledger.tasks.get(question.sequence)
        if seat.stream is None:
            return
        if task is None:
            self._send(seat.stream, question.number, None)
        else:
            self._waiting.append(Asked(seat, seat.stream, question.number, task, question.key))

    def take(self) -> list[Asked]:
        """The questions that came since the last call."""
        taken, self._waiting = self._waiting, []
        return taken

    def answer(self, asked: Asked, first: bool | None) -> None:
        """Lets the runner know, if it is still there."""
        if asked.seat.stream is asked.stream:
            self._send(asked.stream, asked.number, first)

    @staticmethod
    def _send(stream: socket.socket, number: int, first: bool | None) -> None:
        # A runner takes each answer before it asks again: there is room.
        with suppress(BlockingIOError, ConnectionError):
            stream.send(pack_answer(number, first))
