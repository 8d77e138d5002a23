"""An embedded Redis-protocol server on a Unix socket: with a password, bounded, and keeping nothing (I10)."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from mutirao.embedded import process
from mutirao.embedded.account import private_directory, server_account
from mutirao.embedded.binaries import valkey_binary
from mutirao.embedded.secrets import load_secrets
from mutirao.errors import Unavailable

START_TIMEOUT = 10.0


class Valkey:
    """One server whose socket and configuration lie below `runtime`; its password is kept in `data`."""

    def __init__(
        self,
        data: Path,
        runtime: Path,
        *,
        environment: Mapping[str, str] | None = None,
        max_memory: str = "128mb",
    ) -> None:
        self._owner = server_account()
        self._home = runtime / "redis"
        self._socket = self._home / "redis.sock"
        self._log = data / "logs" / "redis.log"
        self._password = load_secrets(data / "secrets.json").redis
        self._environment = {"PATH": os.defpath, **(environment or {})}
        self._max_memory = max_memory
        self._binary = valkey_binary(self._owner)
        self.process: process.Process | None = None

    @property
    def url(self) -> str:
        """Where to connect, password included."""
        return f"unix://:{self._password}@{self._socket}"

    def start(self) -> None:
        """Returns once the server takes connections; what an earlier one held is gone."""
        self.launch()
        self.wait_ready()

    def launch(self) -> process.Process:
        """Starts the server process without waiting for it."""
        private_directory(self._home, self._owner)
        self._socket.unlink(missing_ok=True)
        self.process = process.spawn(
            [str(self._binary), str(self._configure())],
            log=self._log, env=self._environment, owner=self._owner, cwd=self._home,
        )  # fmt: skip
        return self.process

    def wait_ready(self, timeout: float = START_TIMEOUT) -> None:
        """Returns once the server takes connections; raises when it ended or took too long."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:
                raise Unavailable(f"the Redis server ended while starting:\n{process.tail(self._log)}")
            if self._answers():
                return
            time.sleep(0.01)
        raise Unavailable(f"the Redis server does not answer after {timeout:g} s")

    def stop(self) -> None:
        """Ends the server within seconds; what it held is gone."""
        if self.process is not None:
            process.stop(self.process, (signal.SIGTERM, 5.0))
            self.process = None

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1.0)
            try:
                probe.connect(str(self._socket))
                probe.sendall(b"AUTH " + self._password.encode() + b"\r\nPING\r\n")
                answer = b""
                while answer.count(b"\r\n") < 2 and (part := probe.recv(256)):
                    answer += part
                return answer.endswith(b"+PONG\r\n")
            except OSError:
                return False

    def _configure(self) -> Path:
        """Writes the configuration: in a file, since an argument list is everyone's to read."""
        path = self._home / "redis.conf"
        lines = [
            "port 0",
            f"unixsocket {self._socket}",
            "unixsocketperm 700",
            f"requirepass {self._password}",
            f"dir {self._home}",
            'save ""',
            "appendonly no",
            f"maxmemory {self._max_memory}",
            "maxmemory-policy noeviction",
            "daemonize no",
            "loglevel warning",
        ]
        path.touch(mode=0o600)
        path.chmod(0o600)
        path.write_text("\n".join(lines) + "\n")
        if self._owner is not None:
            self._owner.own(path)
        return path
