"""A front before a web server that loses what a test tells it to: a node seen through a bad network."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Relay:
    """Passes requests on, one a connection; the next `lose` answers to a POST are swallowed once given."""

    def __init__(self, url: str, port: int = 0) -> None:
        host, back = url.removeprefix("http://").split(":")
        self._back = (host, int(back))
        self._front = socket.create_server(("127.0.0.1", port))
        self._lock = threading.Lock()
        self.port: int = self._front.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.lose = 0
        self.requests: list[str] = []

    def serve(self) -> None:
        """Accepts until closed."""
        with suppress(OSError):
            while True:
                connection, _ = self._front.accept()
                threading.Thread(target=self._pass_on, args=(connection,), daemon=True).start()

    def close(self) -> None:
        """No more connections; `accept` is woken up, which closing alone would not do."""
        with suppress(OSError):
            self._front.shutdown(socket.SHUT_RDWR)
        self._front.close()

    def _pass_on(self, connection: socket.socket) -> None:
        with connection, socket.create_connection(self._back, timeout=20) as back:
            head, body = _request(connection)
            back.sendall(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + body)
            answer = b"".join(iter(lambda: back.recv(65536), b""))
            with self._lock:
                self.requests.append(head.split(b"\r\n")[0].decode())
                lost = self.lose > 0 and head.startswith(b"POST ")
                self.lose -= lost
            if not lost:
                connection.sendall(answer)


def _request(connection: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    sizes = [
        line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    ]
    while sizes and len(body) < int(sizes[0]):
        body += connection.recv(65536)
    return head + b"\r\n\r\n", body


@contextmanager
def relay(url: str, port: int = 0) -> Iterator[Relay]:
    """A relay before the web server at `url`, on that port or any."""
    front = Relay(url, port)
    thread = threading.Thread(target=front.serve, daemon=True)
    thread.start()
    try:
        yield front
    finally:
        front.close()
        thread.join(10)
