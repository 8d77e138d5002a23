"""What a runner writes to its standard output and error, as the agent takes it in, attempt by attempt."""

from __future__ import annotations

import fcntl
import os
from collections import deque
from contextlib import suppress

from mutirao.agent.shared import Shared
from mutirao.tail import Output, Tail

ROOM = 256 * 1024  # what a pipe holds, and with it what one read takes in
_NONCE = 24
_READS = 64  # in a row; a sound pipe is empty long before


class OutputPipe:
    """One runner's pipe; between two attempts the runner puts a mark in it that only the two of them know."""

    def __init__(self, shared: Shared, index: int, buffer: bytearray) -> None:
        self._shared = shared
        self._index = index
        self._buffer = buffer
        self.descriptor = -1
        self.ended = False  # nobody has the other end any more
        self.mark = b""
        self._tail = Tail()
        self._held = bytearray()  # what may be the beginning of a mark
        self._closed: deque[Output | None] = deque()  # up to each mark

    def open(self) -> int:
        """Makes a new pipe and a new mark; returns the runner's end, for the caller to close."""
        self.close()
        self.descriptor, theirs = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.descriptor, False)
        with suppress(OSError):  # more than one user may have; the usual size will do
            fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, ROOM)
        self.mark = os.urandom(_NONCE)
        self.ended = False
        self._shared.set_drained(self._index, 0)
        return theirs

    def close(self) -> None:
        """Closes this end and forgets what came in."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1
        self._tail.take()
        self._held.clear()
        self._closed.clear()

    def read(self) -> bool:
        """Takes in what is there, at most a pipe full; False if that is nothing."""
        if self.descriptor < 0 or self.ended:
            return False
        before = self._shared.drained(self._index)
        # The runner must never find the pipe empty and believe that it has written nothing.
        self._shared.set_drained(self._index, before | 1)
        size = 0
        try:
            size = os.readv(self.descriptor, [self._buffer])
            self.ended = size == 0
        except BlockingIOError:
            pass
        finally:
            self._shared.set_drained(self._index, before + 2 * size)
        self._sift(memoryview(self._buffer)[:size])
        return size > 0

    def until_mark(self) -> Output | None:
        """What came before the next mark, which the runner has written."""
        for _ in range(_READS):
            if self._closed or not self.read():
                break
        return self._closed.popleft() if self._closed else None

    def rest(self) -> Output | None:
        """Everything that came and was not asked for; nobody writes any more."""
        for _ in range(_READS):
            if not self.read():
                break
        whole = Tail()
        self._tail.add(self._held)
        self._held.clear()
        for part in (*self._closed, self._tail.take()):
            if part is not None:
                whole.add(part.kept, part.dropped)
        self._closed.clear()
        return whole.take()

    def _sift(self, data: memoryview) -> None:
        self._held += data
        while (at := self._held.find(self.mark)) >= 0:
            self._tail.add(self._held[:at])
            self._closed.append(self._tail.take())
            del self._held[: at + len(self.mark)]
        over = len(self._held) - len(self.mark) + 1
        if over > 0:
            self._tail.add(self._held[:over])
            del self._held[:over]
