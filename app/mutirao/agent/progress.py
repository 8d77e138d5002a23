"""How far an attempt is, noted in shared memory: no call, no copy, and always the latest word."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from mutirao.agent.shared import RECORD, Shared

_SUM = struct.Struct("<I")
_HEAD = struct.Struct("<QdH")
_LONGEST = RECORD - _SUM.size - _HEAD.size


class Progress(NamedTuple):
    """A fraction from 0 to 1, and a note."""

    fraction: float
    note: str


def write(shared: Shared, runner: int, sequence: int, progress: Progress) -> None:
    """Notes how far that task is; for one thread at a time."""
    text = progress.note.encode()[:_LONGEST]
    body = _HEAD.pack(sequence, progress.fraction, len(text)) + text
    shared.note(runner, _SUM.pack(zlib.crc32(body)) + body)


def read(shared: Shared, runner: int, sequence: int) -> Progress | None:
    """How far that task is; None if it has not said, or is saying it at this moment."""
    record = shared.record(runner)
    noted, fraction, size = _HEAD.unpack_from(record, _SUM.size)
    if noted != sequence:
        return None
    end = _SUM.size + _HEAD.size + size
    # By its sum a record that was read while it was written is known, on any processor.
    if end > RECORD or zlib.crc32(record[_SUM.size : end]) != _SUM.unpack_from(record)[0]:
        return None
    return Progress(fraction, record[_SUM.size + _HEAD.size : end].decode(errors="replace"))
