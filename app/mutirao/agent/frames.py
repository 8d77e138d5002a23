"""What agent and runner say to each other: reports and questions one way, answers the other."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from uuid import UUID

import msgspec

from mutirao.domain.job import Outcome
from mutirao.tail import Output

LARGEST_FRAME = 16 << 20

_LENGTH = struct.Struct("<I")
_ANSWER = struct.Struct("<Qb")
_ANSWERS = {None: -1, False: 0, True: 1}


class Task(msgspec.Struct, frozen=True, gc=False):
    """One attempt to run: `payload` is JSON text, `timeout` in seconds."""

    job_id: UUID
    attempt: int
    handler: str
    payload: bytes
    timeout: float


class Finished(msgspec.Struct, frozen=True, gc=False):
    """How an attempt ended; everything its handler started is dead and reaped by now.

    `result` and `error` are JSON; an error is an object {type, message, traceback, field?}.
    `started` is boottime seconds, 0.0 when it never started.
    """

    job_id: UUID
    attempt: int
    outcome: Outcome
    result: bytes | None = None
    error: bytes | None = None
    retry_after: float | None = None
    discard: bool = False
    seconds: float = 0.0
    started: float = 0.0
    output: Output | None = None


class Report(msgspec.Struct, gc=False, array_like=True, tag=0):
    """A runner's word: sequence 0 and no error says it is ready; `last` that it exits right after.

    `marked` says that there is a mark in its output, which what was written before it ends with.
    """

    sequence: int
    started: float
    seconds: float
    outcome: Outcome
    result: bytes | None = None
    error: bytes | None = None
    retry_after: float | None = None
    discard: bool = False
    last: bool = False
    marked: bool = False


class Question(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=1):
    """A runner asks, for the task it runs, whether nobody has asked for this key before."""

    number: int
    sequence: int
    key: str


Said = Report | Question


_encode = msgspec.msgpack.Encoder().encode
_decode_said = msgspec.msgpack.Decoder(Report | Question).decode


def pack_frame(message: object) -> bytes:
    """A message with its length before it."""
    body = _encode(message)
    return _LENGTH.pack(len(body)) + body


def read_frame(stream: socket.socket) -> bytes:
    """The body of the next frame; EOFError when the other end has closed."""
    return _read(stream, _LENGTH.unpack(_read(stream, _LENGTH.size))[0])


def _read(stream: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = stream.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def take_said(buffer: bytearray) -> Iterator[Said]:
    """The complete frames at the buffer's start, which are removed; ValueError if it is no such stream."""
    at, view = 0, bytes(buffer)
    while len(view) - at >= _LENGTH.size:
        (size,) = _LENGTH.unpack_from(view, at)
        if size > LARGEST_FRAME:
            raise ValueError("a frame beyond all bounds")
        end = at + _LENGTH.size + size
        if end > len(view):
            break
        yield _decode_said(memoryview(view)[at + _LENGTH.size : end])
        at = end
    del buffer[:at]


def pack_answer(number: int, first: bool | None) -> bytes:
    """The answer to a question: yes, no, or None where the attempt is over."""
    return _ANSWER.pack(number, _ANSWERS[first])


def read_answer(stream: socket.socket) -> tuple[int, bool | None]:
    """The next answer; EOFError when the other end has closed.

    Of one size and sent at once: whatever interrupts this wait leaves the stream between two answers.
    """
    data = stream.recv(_ANSWER.size, socket.MSG_WAITALL)
    if len(data) < _ANSWER.size:
        raise EOFError
    number, code = _ANSWER.unpack(data)
    return number, None if code < 0 else bool(code)
