"""All runners' pipes: each is read when it has something, but never often, so that a flood costs little."""

from __future__ import annotations

import select
import time
from collections.abc import Iterable

from mutirao.agent.output import ROOM, OutputPipe
from mutirao.agent.shared import Shared
from mutirao.tail import Output

# A pipe that was read is left alone for so long: endless output fills it, and its writer waits.
REST = 0.01


class Outputs:
    """What every runner writes, taken in by one thread at a time, apart from what runners report."""

    def __init__(self, count: int, shared: Shared, epoll: select.epoll) -> None:
        buffer = bytearray(ROOM)
        self._epoll = epoll
        self._pipes = [OutputPipe(shared, index, buffer) for index in range(count)]
        self._by_descriptor: dict[int, OutputPipe] = {}
        self._resting: dict[int, float] = {}

    def open(self, index: int) -> tuple[int, bytes]:
        """A new pipe for a new runner: its end, for the caller to close, and its mark."""
        self.close(index)
        pipe = self._pipes[index]
        theirs = pipe.open()
        self._by_descriptor[pipe.descriptor] = pipe
        self._epoll.register(pipe.descriptor, select.EPOLLIN | select.EPOLLONESHOT)
        return theirs, pipe.mark

    def close(self, index: int) -> None:
        """Gives a runner's pipe up."""
        pipe = self._pipes[index]
        if self._by_descriptor.pop(pipe.descriptor, None) is not None:
            self._epoll.unregister(pipe.descriptor)
            self._resting.pop(pipe.descriptor, None)
        pipe.close()

    def hear(self, ready: Iterable[int]) -> None:
        """Reads the pipes among those descriptors, and listens again to those that have rested."""
        for descriptor in ready:
            pipe = self._by_descriptor.get(descriptor)
            if pipe is not None:
                pipe.read()
                if not pipe.ended:
                    # All floods together cost no more than one.
                    self._resting[descriptor] = time.monotonic() + REST * (1 + len(self._resting))
        if self._resting:
            self._resume(time.monotonic())

    def _resume(self, now: float) -> None:
        for descriptor in [rested for rested, until in self._resting.items() if until <= now]:
            del self._resting[descriptor]
            self._epoll.modify(descriptor, select.EPOLLIN | select.EPOLLONESHOT)

    def patience(self, longest: float) -> float:
        """How long to wait for anything, at most `longest`."""
        if not self._resting:
            return longest
        return max(0.0, min(longest, min(self._resting.values()) - time.monotonic()))

    def until_mark(self, index: int) -> Output | None:
        """What that runner wrote before the next mark, which it has set."""
        return self._pipes[index].until_mark()

    def rest(self, index: int) -> Output | None:
        """All that is left of what that runner wrote, now that it is dead."""
        return self._pipes[index].rest()
