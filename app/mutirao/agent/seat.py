"""One runner's place as the agent sees it: the process in it changes, the place stays."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from mutirao.agent.frames import Report, Said, take_said

_CHUNK = 256 * 1024
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class Seat:
    """The stream from the runner, and what is being done to it."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.stream: socket.socket | None = None
        self.ready = False
        self.killing: int | None = None  # the sequence named in a kill that the guard has not answered yet
        self.last: Report | None = None  # true only once the runner has exited
        self.ended = False  # the runner has closed its end
        self.spawn_at = 0.0
        self._failures = 0
        self._buffer = bytearray()

    @property
    def failing(self) -> bool:
        """Whether the last runner never got ready, and the present one is not, yet."""
        return self._failures > 0 and not self.ready

    def take(self, greeting: bytes) -> socket.socket:
        """Makes a new stream with `greeting` on it; returns the runner's end, for the caller to close."""
        mine, theirs = socket.socketpair()
        mine.sendall(greeting)
        mine.setblocking(False)
        self.stream, self.ready, self.killing, self.last, self.ended = mine, False, None, None, False
        self._buffer.clear()
        return theirs

    def said(self, *, all_of_it: bool = False) -> Iterator[Said]:
        """What has come in, a bounded number or all; ValueError or MsgspecError if they are none."""
        while data := self._receive():
            self._buffer += data
            yield from take_said(self._buffer)
            if not all_of_it:
                return

    def _receive(self) -> bytes:
        if self.stream is None or self.ended:
            return b""
        try:
            data = self.stream.recv(_CHUNK)
        except BlockingIOError:
            return b""
        except ConnectionError:
            data = b""
        self.ended = not data
        return data

    def leave(self, now: float) -> None:
        """The runner is gone; a new one at once, or after a growing pause if it never got ready."""
        if self.stream is not None:
            self.stream.close()
        self._failures = 0 if self.ready else self._failures + 1
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**self._failures) if self._failures else 0.0
        self.stream, self.killing, self.last, self.spawn_at = None, None, None, now + pause
        self.ready = False
