"""What goes between agent and runner: tasks as datagrams, reports as frames on a stream."""

from __future__ import annotations

import array
import mmap
import os
import socket
import struct
from collections.abc import Iterator
from uuid import UUID

import msgspec

from mutirao.domain.job import Outcome

INLINE = 64 * 1024  # a longer payload travels in a memory file
LARGEST_FRAME = 16 << 20

_SEQUENCE = struct.Struct("<Q")
_LENGTH = struct.Struct("<I")
_DESCRIPTOR_SPACE = socket.CMSG_SPACE(4)


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


class Report(msgspec.Struct, gc=False, array_like=True):
    """A runner's word: sequence 0 and no error says it is ready; `last` that it exits right after."""

    sequence: int
    started: float
    seconds: float
    outcome: Outcome
    result: bytes | None = None
    error: bytes | None = None
    retry_after: float | None = None
    discard: bool = False
    last: bool = False


class Work(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A task as it travels; without a payload, that is in the memory file sent along."""

    job: bytes
    attempt: int
    handler: str
    payload: bytes | None
    timeout: float


_encode = msgspec.msgpack.Encoder().encode
_decode_work = msgspec.msgpack.Decoder(Work).decode
_decode_report = msgspec.msgpack.Decoder(Report).decode


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


def take_reports(buffer: bytearray) -> Iterator[Report]:
    """The complete reports at the buffer's start, which are removed; ValueError if it is no such stream."""
    at, view = 0, bytes(buffer)
    while len(view) - at >= _LENGTH.size:
        (size,) = _LENGTH.unpack_from(view, at)
        if size > LARGEST_FRAME:
            raise ValueError("a frame beyond all bounds")
        end = at + _LENGTH.size + size
        if end > len(view):
            break
        yield _decode_report(memoryview(view)[at + _LENGTH.size : end])
        at = end
    del buffer[:at]


def send_task(queue: socket.socket, sequence: int, task: Task) -> bool:
    """Puts a task on the queue; False if there is no room now."""
    inline = len(task.payload) <= INLINE
    work = Work(task.job_id.bytes, task.attempt, task.handler, task.payload if inline else None, task.timeout)
    data = _SEQUENCE.pack(sequence) + _encode(work)
    try:
        if inline:
            queue.send(data, socket.MSG_DONTWAIT)
        else:
            _send_with_file(queue, data, task.payload)
    except BlockingIOError:
        return False
    return True


def _send_with_file(queue: socket.socket, data: bytes, payload: bytes) -> None:
    descriptor = os.memfd_create("mutirao-payload", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(payload)
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))
        queue.sendmsg([data], [rights], socket.MSG_DONTWAIT)
    finally:
        os.close(descriptor)


class Inbox:
    """The receiving end of the task queue; its buffer is reused."""

    def __init__(self, queue: socket.socket) -> None:
        self._queue = queue
        self._buffer = bytearray(2 * INLINE)
        self._view = memoryview(self._buffer)
        self._size = 0
        self._descriptor = -1

    def take(self, flags: int = 0) -> int:
        """Waits for a task and returns its sequence alone (0 when the queue is closed)."""
        size, extra, _, _ = self._queue.recvmsg_into(
            [self._buffer], _DESCRIPTOR_SPACE, socket.MSG_CMSG_CLOEXEC | flags
        )
        self._size = size
        if extra:
            self._descriptor = array.array("i", extra[0][2])[0]
        return int(_SEQUENCE.unpack_from(self._buffer)[0]) if size else 0

    def open(self) -> tuple[Work, bytes]:
        """What `take` received, with its payload."""
        work = _decode_work(self._view[_SEQUENCE.size : self._size])
        if work.payload is not None:
            return work, work.payload
        with mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ) as file:
            payload = bytes(file)
        self.drop()
        return work, payload

    def drop(self) -> None:
        """Closes the memory file of what `take` received, if there is one."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
