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
        text = self._decoded(self.kept)
        return text if len(text.encode()) <= KEPT else self._decoded(self.kept[-KEPT // 3 :])

    def _decoded(self, kept: bytes) -> str:
        if len(kept) < len(self.kept) or self.dropped:
            # Cut inside a character, its rest is no error of the writer's.
            kept = kept[:4].lstrip(_CONTINUATION) + kept[4:]
        return kept.decode(errors="replace").replace("\0", "\ufffd")


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
