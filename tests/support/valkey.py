"""Redis-protocol servers of a test's own: to be frozen, starved, replicated, killed and brought back."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from mutirao.coordination.connection import connect
from mutirao.embedded.binaries import valkey_binary
from tests.support.waiting import until


class ScratchServer:
    """One server on a loopback port that stays the same across restarts; it keeps nothing on disk."""

    def __init__(self, directory: Path, *options: str) -> None:
        self._directory = directory
        self._options = options
        self.port = _free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns once it answers."""
        self.launch()
        until(self._answers, 10, "a scratch server that answers", every=0.02)

    def launch(self, *options: str) -> None:
        """Starts the process and does not wait for it."""
        self._directory.mkdir(exist_ok=True)
        settings = {
            "--port": str(self.port), "--bind": "127.0.0.1", "--save": "", "--appendonly": "no",
            "--dir": str(self._directory), "--repl-diskless-sync-delay": "0", "--loglevel": "warning",
        }  # fmt: skip
        words = [word for pair in settings.items() for word in pair]
        with (self._directory / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(valkey_binary(None)), *words, *self._options, *options], stdout=log, stderr=log
            )

    def client(self) -> redis.Redis:
        """A client as the application makes it."""
        return connect(self.url)

    def freeze(self) -> None:
        """The server stops executing; its connections stay open and silent."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        """The server goes on, with whatever its sockets hold."""
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """The server is gone, and all it held."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self) -> None:
        """Killed and started again, empty."""
        self.kill()
        self.start()

    def _send(self, signum: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(signum)

    def _answers(self) -> bool:
        try:
            return bool(self.client().ping())
        except redis.ConnectionError:
            return False


@contextmanager
def scratch_server(directory: Path, *options: str) -> Iterator[ScratchServer]:
    """A running server, gone afterwards whatever was done to it."""
    server = ScratchServer(directory, *options)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
