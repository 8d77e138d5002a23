"""The agent's side of its guard: starts it, gives orders, hears reports."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID

MARKER = "MUTIRAO_RUN"


class GuardLink:
    """One guard process and its control socket; once that closes, the guard ends everything and exits."""

    def __init__(self, node_id: UUID, shared: int, directory: Path) -> None:
        self._shared = shared
        self.hung_up = False
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            numbers = (theirs.fileno(), shared)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "mutirao.agent.guard", str(node_id), *map(str, numbers)],
                pass_fds=numbers,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=2,
                cwd=directory,
                env=scrubbed() | {MARKER: str(node_id)},
            )

    @property
    def pid(self) -> int:
        """The guard's process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the guard is there; without it nothing may run."""
        return self._process.poll() is None

    def spawn(self, runner: int, tasks: socket.socket, results: socket.socket, output: int) -> None:
        """Orders a runner; it is dropped if the guard has fenced meanwhile."""
        self._send(f"spawn {runner}", [tasks.fileno(), results.fileno(), self._shared, output])

    def kill(self, runner: int, sequence: int) -> None:
        """Orders a runner killed if it still holds that task; `exited` or `kept` answers."""
        self._send(f"kill {runner} {sequence}")

    def rearm(self, fence: int) -> None:
        """Lets the guard spawn again after that fence."""
        self._send(f"rearm {fence}")

    def reports(self, *, wait: float = 0.0) -> Iterator[tuple[str, list[int]]]:
        """The reports that are there; with `wait`, up to so many seconds for the first."""
        self.control.settimeout(wait)
        with suppress(BlockingIOError, TimeoutError):
            while text := self._receive():
                name, *numbers = text.decode().split()
                yield name, [int(number) for number in numbers]
                self.control.settimeout(0.0)
            self.hung_up = True

    def _receive(self) -> bytes:
        try:
            return self.control.recv(256)
        except ConnectionError:
            return b""

    def destroy(self) -> None:
        """Kills the guard, and with it the runners."""
        self._process.kill()
        self._process.wait()

    def close(self, timeout: float) -> bool:
        """Hangs up and waits for the guard to end everything; True if it did so in time and unharmed."""
        self.control.close()
        try:
            return self._process.wait(timeout) == 0
        except subprocess.TimeoutExpired:
            self.destroy()
            return False

    def _send(self, text: str, descriptors: list[int] | None = None) -> None:
        self.control.settimeout(5.0)
        with suppress(ConnectionError):  # a dead guard is noticed by `alive`
            socket.send_fds(self.control, [text.encode()], descriptors or [])


def scrubbed() -> dict[str, str]:
    """The environment without our own settings, which hold secrets."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MUTIRAO_")}
    if "PYTHONPATH" in kept:  # what gets it works in another directory
        kept["PYTHONPATH"] = os.pathsep.join(map(str, map(Path.absolute, map(Path, _entries(kept)))))
    return kept


def _entries(environment: dict[str, str]) -> list[str]:
    return [entry for entry in environment["PYTHONPATH"].split(os.pathsep) if entry]
