"""A Redis-protocol server of the test's own, to be flushed, frozen, killed and started again."""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path
from types import TracebackType

import redis

from mutirao.embedded.binaries import valkey_binary
from tests.support.processes import send
from tests.support.waiting import until


class RedisServer:
    """Keeps nothing over a restart; the port stays the same."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self._client = redis.Redis(port=self._port, socket_timeout=2, decode_responses=True)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts it empty and returns once it answers."""
        options = ["--port", str(self._port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        with (self._directory / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(valkey_binary(None)), *options], cwd=self._directory, stdout=log, stderr=log
            )
        until(self._answers, 10, "the test's Redis answers")

    def stop(self) -> None:
        """kill -9."""
        if self._process is not None:
            send(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """kill -9, then empty again."""
        self.stop()
        self.start()

    def flush(self) -> None:
        """FLUSHALL."""
        self._client.flushall()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        assert self._process is not None
        send(self._process.pid, signal.SIGSTOP)

    def has_leader(self) -> bool:
        """True while the leader key is there."""
        return any(self._client.scan_iter("*:leader"))

    def beating(self) -> list[str]:
        """The keys of the beats that are there."""
        return list(self._client.scan_iter("*:beat:*"))

    def _answers(self) -> bool:
        try:
            return bool(self._client.ping())
        except redis.RedisError:
            return False
