"""A runner's standard output and error: made whole again after each attempt, with a mark where it ended."""

from __future__ import annotations

import array
import fcntl
import io
import logging
import os
import sys
import termios
from typing import TYPE_CHECKING, TextIO

from mutirao.agent.shared import Shared
from mutirao.agent.spawning import OUTPUT
from mutirao.context import LOGGER

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_OUT, _ERROR = 1, 2


class RunnerOutput:
    """What the runner and its handlers write goes to the agent by a pipe; for the runner's main thread."""

    def __init__(self, shared: Shared, index: int, mark: bytes) -> None:
        self._shared = shared
        self._index = index
        self._mark = mark
        self._pending = array.array("i", [0])
        self._marked: int | None = 0  # bytes written in all, up to the last mark; None: not known
        self._install()

    def _install(self) -> None:
        # Nothing may hold the interpreter's own: closed with the last of them, the descriptors would be.
        self._out = sys.stdout = sys.__stdout__ = _stream(_OUT)  # type: ignore[misc]
        self._error = sys.stderr = sys.__stderr__ = _stream(_ERROR)  # type: ignore[misc]

    def end_attempt(self) -> bool:
        """Undoes what a handler did to the two; True if it set a mark, since something may be new."""
        self._restore()
        total = self._written()
        if total is not None and total == self._marked:
            return False
        os.write(OUTPUT, self._mark)  # whole: it is shorter than PIPE_BUF
        self._marked = None if total is None else total + len(self._mark)
        return True

    def _restore(self) -> None:
        if sys.stdout is not self._out or sys.stderr is not self._error:
            for strange in (sys.stdout, sys.stderr):
                _flushed(strange)
            sys.stdout, sys.stderr = self._out, self._error
        os.dup2(OUTPUT, _OUT)
        os.dup2(OUTPUT, _ERROR)
        os.set_blocking(OUTPUT, True)  # a child may have changed it, for all of its holders
        if not _flushed(self._out) or not _flushed(self._error):
            self._install()

    def _written(self) -> int | None:
        """How many bytes this runner and its children have ever written; None while the agent is reading."""
        before = self._shared.drained(self._index)
        fcntl.ioctl(OUTPUT, termios.FIONREAD, self._pending)
        if before & 1 or self._shared.drained(self._index) != before:
            return None
        return before // 2 + self._pending[0]


class _ToStandardError(logging.Handler):
    """Writes to what is the standard error at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
        except (OSError, ValueError, TypeError):
            self.handleError(record)


def set_up_log() -> None:
    """Sends what handlers log to the standard error: a context's lines from INFO up, others from WARNING."""
    handler = _ToStandardError()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger(LOGGER).setLevel(logging.INFO)


class _Prompt(io.TextIOWrapper):
    """A text stream that holds nothing back: a kill would lose it, a fork would double it."""

    def write(self, text: str, /) -> int:
        size = super().write(text)
        self.flush()
        return size


class _Patient(io.FileIO):
    """Waits for room, whoever of its holders has asked not to: some programs do, for all of them."""

    def write(self, data: ReadableBuffer, /) -> int:
        while (size := super().write(data)) is None:
            os.set_blocking(self.fileno(), True)
        return size


def _stream(descriptor: int) -> _Prompt:
    raw = _Patient(descriptor, "w", closefd=False)
    return _Prompt(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")


def _flushed(stream: TextIO | None) -> bool:
    """Whether a stream, which a handler may have put anything in place of, is in order and empty."""
    try:
        stream.flush()  # type: ignore[union-attr]
    except Exception:  # noqa: BLE001
        return False
    return True
