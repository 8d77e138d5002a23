"""SIGTERM and SIGINT as an exception, raised only where it can do no harm."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


class Stop(BaseException):
    """Somebody asked this process to end; not an error, so no `except Exception` may hold it up."""


class Signals:
    """Counts requests to stop from now on; raises Stop within `interrupting`, once."""

    def __init__(self) -> None:
        self.count = 0
        self._interrupting = False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # nohup means it: a closed terminal is then no request.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._received)

    @contextlib.contextmanager
    def interrupting(self) -> Iterator[None]:
        """Inside, a request raises Stop at once; one that came before raises it on entry."""
        try:
            self._interrupting = True
            if self.count:
                raise Stop
            yield
        finally:
            self._interrupting = False

    @contextlib.contextmanager
    def shielded(self) -> Iterator[None]:
        """Inside, a request waits: what is being done must be done whole."""
        before, self._interrupting = self._interrupting, False
        try:
            yield
        finally:
            self._interrupting = before
        if before and self.count:
            raise Stop

    @property
    def hurry(self) -> bool:
        """True after the second request."""
        return self.count > 1

    def _received(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self._interrupting:
            self._interrupting = False
            raise Stop
