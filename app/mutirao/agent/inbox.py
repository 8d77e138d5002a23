"""Tasks on their way to a runner: datagrams, with the payload in a memory file where it is long."""

from __future__ import annotations

import array
import mmap
import os
import socket
import struct

import msgspec

from mutirao.agent.frames import Task

INLINE = 64 * 1024  # a longer payload travels in a memory file

_SEQUENCE = struct.Struct("<Q")
_DESCRIPTOR_SPACE = socket.CMSG_SPACE(4)


class Work(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A task as it travels; without a payload, that is in the memory file sent along."""

    job: bytes
    attempt: int
    handler: str
    payload: bytes | None
    timeout: float


_encode = msgspec.msgpack.Encoder().encode
_decode_work = msgspec.msgpack.Decoder(Work).decode


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
