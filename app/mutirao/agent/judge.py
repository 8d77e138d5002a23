"""Whether payloads fit a node's handlers, found out in a process of its own: validators are foreign code."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Protocol

import msgspec

from mutirao.agent.frames import pack_frame, read_frame
from mutirao.agent.guard_link import scrubbed
from mutirao.errors import Unavailable
from mutirao.registry import HandlerConfig

# So long may one validation take; in the agent it would hold up beats, if it holds the interpreter lock.
PATIENCE = 5.0
_LOADED_WITHIN = 60.0
_RESTART = "if their files have changed, restart the agent"


class Judging(Protocol):
    """What tells whether a payload fits a handler."""

    def fault(self, handler: str, payload: bytes) -> str | None:
        """Why not, beginning with `.FIELD` where there is one; None: it fits."""

    def rest(self) -> None:
        """Nothing more is asked for a while."""


class Judge:
    """Starts the process when it is asked, and ends it in `rest` or when a validation takes too long."""

    def __init__(self, config: HandlerConfig, directory: Path) -> None:
        self._greeting = pack_frame(config)
        self._directory = directory
        self._lock = threading.Lock()
        self._running: tuple[subprocess.Popen[bytes], socket.socket] | None = None

    def fault(self, handler: str, payload: bytes) -> str | None:
        """Why the payload does not fit, None if it does; known within seconds, whatever a validator does.

        Raises Unavailable when the handlers cannot be loaded.
        """
        with self._lock:
            for _ in range(2):  # its end may have had nothing to do with this payload
                stream = self._started()
                try:
                    stream.settimeout(PATIENCE)
                    stream.sendall(pack_frame((handler, payload)))
                    return msgspec.msgpack.decode(read_frame(stream), type=str | None)
                except TimeoutError:
                    self._end()
                    return f": its validation did not end within {PATIENCE:g} s"
                except (EOFError, ConnectionError):
                    self._end()
            return ": its validation ended the process it ran in"

    def rest(self) -> None:
        """Ends the process, until it is needed again."""
        with self._lock:
            self._end()

    def _started(self) -> socket.socket:
        if self._running is None:
            mine, theirs = socket.socketpair()
            with theirs:
                argv = [sys.executable, "-P", "-u", "-m", "mutirao.agent.judge_process", str(theirs.fileno())]
                process = subprocess.Popen(
                    argv,
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=2,
                    cwd=self._directory,
                    env=scrubbed(),
                )
            self._running = process, mine
            self._load(mine)
        return self._running[1]

    def _load(self, stream: socket.socket) -> None:
        try:
            stream.settimeout(_LOADED_WITHIN)
            stream.sendall(self._greeting)
            wrong = msgspec.msgpack.decode(read_frame(stream), type=str)
        except TimeoutError:
            wrong = f"loading them did not end within {_LOADED_WITHIN:g} s"
        except (EOFError, OSError):
            wrong = "loading them ended the process"
        if wrong:
            self._end()
            raise Unavailable(f"handlers cannot be loaded to try what waits: {wrong}", hint=_RESTART)

    def _end(self) -> None:
        if self._running is not None:
            process, stream = self._running
            self._running = None
            stream.close()
            process.kill()
            process.wait()
