"""A real HTTP server on loopback that answers as it is told and remembers what it was asked."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CERTIFICATE = Path(__file__).parent / "tls" / "secure.test.pem"
Body = bytes | Callable[[], Iterator[bytes]]


@dataclass
class Asked:
    """One request as it came; the names of its headers in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Site:
    """Answers by path: status, headers, body; an iterator is sent without a length, None hangs up."""

    answers: dict[str, tuple[int, Mapping[str, str], Body] | None] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    port: int = 0

    def url(self, path: str = "/", host: str = "127.0.0.1", scheme: str = "http") -> str:
        """Where it is."""
        return f"{scheme}://{host}:{self.port}{path}"


@contextmanager
def site(*, secure: bool = False) -> Iterator[Site]:
    """A site that says 404 until it is told more."""
    made = Site()

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            made.asked.append(Asked(self.command, self.path, headers, body))
            told = made.answers.get(self.path, (404, {}, b"nothing here"))
            self.close_connection = True
            if told is None:
                return
            status, extra, content = told
            self.send_response_only(status)
            for name, value in extra.items():
                self.send_header(name, value)
            if isinstance(content, bytes):
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            try:
                if self.command != "HEAD":
                    for chunk in (content,) if isinstance(content, bytes) else content():
                        self.wfile.write(chunk)
            except OSError:
                pass  # enough was read

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        def log_message(self, *_: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    if secure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    made.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
