"""The one queue that all runners of a node take from, so that a stuck runner holds up nothing but itself."""

from __future__ import annotations

import socket
from contextlib import suppress

from mutirao.agent.frames import Task
from mutirao.agent.inbox import Inbox, send_task

_ROOM = 4 << 20
_SO_SNDBUFFORCE = 32


class TaskQueue:
    """Datagrams between two sockets of this process; runners share the receiving end."""

    def __init__(self) -> None:
        self._sending, self.receiving = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ROOM)
        with suppress(PermissionError):
            self._sending.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _ROOM)
        self._inbox = Inbox(self.receiving)

    def offer(self, sequence: int, task: Task) -> bool:
        """Puts a task at the end; False if there is no room now."""
        return send_task(self._sending, sequence, task)

    def take_back(self) -> list[int]:
        """Empties the queue; the sequences that no runner had taken, in order."""
        taken = []
        with suppress(BlockingIOError):
            while sequence := self._inbox.take(socket.MSG_DONTWAIT):
                self._inbox.drop()
                taken.append(sequence)
        return taken

    def close(self) -> None:
        """Closes both ends here; runners that wait see the end."""
        self._sending.close()
        self.receiving.close()
