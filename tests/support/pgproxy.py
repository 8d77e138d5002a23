"""A link between one client and PostgreSQL that can fall silent, hold a statement, or lose one commit."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qs, urlsplit, urlunsplit

_NAME = ".s.PGSQL.5432"


@dataclass
class _Loss:
    """The next commit of a transaction with such a statement: its way there, or its answer, is lost."""

    statement: str
    what: Literal["commit", "answer"]
    happened: threading.Event = field(default_factory=threading.Event)


class Proxy:
    """A socket before the server's own, from `open` on; `dsn` leads through it."""

    def __init__(self, dsn: str) -> None:
        parts = urlsplit(dsn)
        self._server = f"{parse_qs(parts.query)['host'][0]}/{_NAME}"
        self._home = tempfile.mkdtemp(prefix="mutirao-proxy-")
        self.dsn = urlunsplit(parts._replace(query=f"host={self._home}"))
        self.flows = threading.Event()
        self.flows.set()
        self.losses: list[_Loss] = []
        self.held: dict[str, threading.Event] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._links: list[_Link] = []

    def open(self) -> None:
        """Begins to listen."""
        self._listener.bind(f"{self._home}/{_NAME}")
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Ends every connection."""
        for name in (self.flows, *self.held.values()):
            name.set()
        self._listener.close()
        for link in self._links:
            link.close()
        shutil.rmtree(self._home, ignore_errors=True)

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Nothing passes, either way; connections stay open, and what was under way arrives afterwards."""
        self.flows.clear()
        try:
            yield
        finally:
            self.flows.set()

    @contextmanager
    def holding(self, statement: str) -> Iterator[None]:
        """Such a statement, and what follows on its connection, is on its way until the end of the block."""
        release = self.held[statement] = threading.Event()
        try:
            yield
        finally:
            del self.held[statement]
            release.set()

    def lose(self, what: Literal["commit", "answer"], statement: str) -> threading.Event:
        """Breaks one connection at the commit of such a statement; set once that has happened."""
        loss = _Loss(statement, what)
        self.losses.append(loss)
        return loss.happened

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._links.append(_Link(self, client, self._server))


class _Link:
    """One connection through the proxy, a thread for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: str) -> None:
        self._proxy = proxy
        self._client = client
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(server)
        self._statements: dict[bytes, str] = {}
        self._transaction: list[str] = []
        self._loss: _Loss | None = None
        for pump in (self._upwards, self._downwards):
            threading.Thread(target=self._run, args=(pump,), daemon=True).start()

    def close(self) -> None:
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _run(self, pump: object) -> None:
        assert callable(pump)
        try:
            pump()
        except OSError:
            pass
        finally:
            self.close()

    def _upwards(self) -> None:
        with self._client, self._client.makefile("rb") as stream:
            self._server.sendall(_message(stream, b""))
            while kind := stream.read(1):
                message = _message(stream, kind)
                if statement := self._statement(kind, message[5:]):
                    self._look_at(statement)
                self._proxy.flows.wait()
                self._server.sendall(message)

    def _downwards(self) -> None:
        with self._server:
            lost = b""
            while data := self._server.recv(65536):
                self._proxy.flows.wait()
                if self._loss is None:
                    self._client.sendall(data)
                    continue
                lost += data
                if b"COMMIT\0" in lost:
                    self._loss.happened.set()
                    return

    def _statement(self, kind: bytes, body: bytes) -> str | None:
        """What the server is about to execute, if this message makes it."""
        if kind == b"P":
            name, text, _ = body.split(b"\0", 2)
            self._statements[name] = text.decode()
        elif kind == b"B":
            return self._statements[body.split(b"\0", 2)[1]]
        elif kind == b"Q":
            return body.rstrip(b"\0").decode()
        return None

    def _look_at(self, statement: str) -> None:
        if statement.startswith("BEGIN"):
            self._transaction = []
        self._transaction.append(statement)
        for held, release in list(self._proxy.held.items()):
            if held in statement:
                release.wait()
        if statement == "COMMIT":
            self._lose()

    def _lose(self) -> None:
        for loss in self._proxy.losses:
            if any(loss.statement in statement for statement in self._transaction):
                self._proxy.losses.remove(loss)
                if loss.what == "commit":
                    loss.happened.set()
                    raise ConnectionError
                self._loss = loss
                return


def _message(stream: object, kind: bytes) -> bytes:
    read = stream.read  # type: ignore[attr-defined]
    length = read(4)
    if len(length) < 4:
        raise ConnectionError
    return bytes(kind + length + read(int.from_bytes(length) - 4))


@contextmanager
def proxy(dsn: str, *, opened: bool = True) -> Iterator[Proxy]:
    """A proxy before the server of `dsn`, listening unless told otherwise."""
    made = Proxy(dsn)
    try:
        if opened:
            made.open()
        yield made
    finally:
        made.close()


def opening(statement: str) -> str:
    """How a statement of the application begins on the wire: up to its first parameter."""
    return statement.partition("%(")[0].strip()
