"""A runner's line to its agent, and what a handler's context has of it."""

from __future__ import annotations

import os
import socket
import threading

from mutirao.agent import progress
from mutirao.agent.frames import Question, Said, pack_frame, read_answer
from mutirao.agent.progress import Progress
from mutirao.agent.shared import Shared
from mutirao.context import ContextLost


class Line:
    """Says things to the agent, and asks; for any thread of this process, and for no other process."""

    def __init__(self, stream: socket.socket, shared: Shared, index: int) -> None:
        self._stream = stream
        self._shared = shared
        self._index = index
        self._process = os.getpid()
        self._saying, self._asking = threading.Lock(), threading.Lock()
        self._number = 0

    def say(self, what: Said) -> None:
        """Sends it whole."""
        frame = pack_frame(what)
        with self._saying:
            self._stream.sendall(frame)

    def ask(self, sequence: int, key: str) -> bool | None:
        """Whether the key is new; None when the attempt is over, or the agent."""
        self._here()
        with self._asking:
            self._number += 1
            try:
                self.say(Question(self._number, sequence, key))
                # An earlier question's answer may come first, if whoever asked it has not waited.
                while (answer := read_answer(self._stream))[0] != self._number:
                    pass
            except (EOFError, ConnectionError):
                return None
            return answer[1]

    def note(self, sequence: int, noted: Progress) -> None:
        """Notes how far the task is, unless the runner is at another one by now."""
        self._here()
        with self._saying:
            if self._shared.slot(self._index)[0] == sequence:
                progress.write(self._shared, self._index, sequence, noted)

    def cancelled(self) -> int:
        """The sequence of the task that is to end."""
        return self._shared.cancelled(self._index)

    def _here(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError("a context works in the handler's own process, not in its children")


class AttemptLink:
    """One attempt's link; kept beyond the attempt's end, it does no harm to the next one."""

    __slots__ = ("_line", "_sequence")

    def __init__(self, line: Line, sequence: int) -> None:
        self._line = line
        self._sequence = sequence

    def cancelled(self) -> bool:
        """Whether somebody wants the attempt ended."""
        return self._line.cancelled() == self._sequence

    def progress(self, fraction: float, note: str) -> None:
        """Notes where the agent looks twice a second."""
        self._line.note(self._sequence, Progress(fraction, note))

    def once(self, key: str) -> bool:
        """Asks PostgreSQL, through the agent."""
        first = self._line.ask(self._sequence, key)
        if first is None:
            raise ContextLost("the attempt is not this node's any more")
        return first
