"""The end of what a process writes, in bounded memory, as text that PostgreSQL takes."""

from __future__ import annotations

from typing import NamedTuple

KEPT = 64 * 1024
_CONTINUATION = bytes(range(0x80, 0xC0))


class Output(NamedTuple):
    """The last bytes of what was written, and how many came before them."""

    kept: bytes
    dropped: int

    def text(self) -> str:
        """As text that PostgreSQL takes, again no longer than KEPT bytes."""
        fitted = self.fitted()
        return fitted.kept[fitted._cut() :].decode(errors="replace").replace("\0", "\ufffd")

    def fitted(self) -> Output:
        """The same, or as much of it as fits as text: a replacement character is longer than a byte."""
        if len(self.kept.decode(errors="replace").replace("\0", "\ufffd").encode()) <= KEPT:
            return self
        cut = len(self.kept) - KEPT // 3
        return Output(self.kept[cut:], self.dropped + cut)

    def _cut(self) -> int:
        """How many bytes at the start are the rest of a character that was cut, no error of the writer's."""
        return len(self.kept[:3]) - len(self.kept[:3].lstrip(_CONTINUATION)) if self.dropped else 0


class Tail:
    """The end of what goes by, in bounded memory."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._size = 0

    def add(self, data: bytes | bytearray | memoryview, dropped: int = 0) -> None:
        """Takes in bytes that follow, after so many that nobody has any more."""
        self._size += len(data) + dropped
        self._kept += data[-KEPT:]
        if len(self._kept) > 2 * KEPT:
            del self._kept[:-KEPT]

    def take(self) -> Output | None:
        """The end, and starts anew; None if nothing went by."""
        if not self._size:
            return None
        kept = bytes(self._kept[-KEPT:])
        output = Output(kept, self._size - len(kept))
        self._kept.clear()
        self._size = 0
        return output
