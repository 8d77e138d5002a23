"""What the client makes of answers that no healthy node gives."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mutirao import Client
from mutirao.errors import InvalidInput, Unavailable

FINE = (200, '{"nodes": []}')
BROKEN = (500, '{"detail": "it broke"}')
AWAY = (503, '{"detail": "PostgreSQL is away", "hint": "bring it back"}')
FOREIGN = (200, "<html>a captive portal</html>")
UNKNOWN = (401, '{"detail": "a valid token is required"}')


class Server(ThreadingHTTPServer):
    """Answers each request with the next of `answers`, the last one for ever."""

    def __init__(self, answers: tuple[tuple[int, str], ...]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = answers
        self.asked = 0
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        status, text = self.server.answers[min(self.server.asked, len(self.server.answers) - 1)]
        self.server.asked += 1
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def server(*answers: tuple[int, str]) -> Iterator[Server]:
    with Server(answers) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield running
        finally:
            running.shutdown()
            thread.join(10)


def test_what_fails_inside_is_asked_once_everywhere_and_no_more() -> None:
    with server(BROKEN) as first, server(BROKEN) as second, Client([first.url, second.url]) as client:
        with pytest.raises(Unavailable, match="it broke"):
            client.nodes()
        assert (first.asked, second.asked) == (1, 1)


@pytest.mark.parametrize("wrong", [BROKEN, AWAY, FOREIGN])
def test_another_node_is_asked(wrong: tuple[int, str]) -> None:
    with server(wrong) as first, server(FINE) as second, Client([first.url, second.url]) as client:
        assert client.nodes() == []
        assert client.nodes() == []
        assert (first.asked, second.asked) == (1, 2)


def test_a_node_that_recovers_is_asked_again() -> None:
    with server(AWAY, AWAY, FINE) as only, Client(only.url) as client:
        assert client.nodes() == []
        assert only.asked == 3


def test_a_refusal_is_final_wherever_it_comes_from() -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(server(UNKNOWN)) for _ in range(2)]
        client = stack.enter_context(Client([one.url for one in servers]))
        with pytest.raises(InvalidInput, match="token"):
            client.nodes()
        assert [one.asked for one in servers] == [1, 0]


def test_the_time_is_bounded_and_the_hint_is_the_nodes() -> None:
    with server(AWAY) as only, Client(only.url, timeout=0.5) as client:
        with pytest.raises(Unavailable, match="PostgreSQL is away") as caught:
            client.nodes()
        assert caught.value.hint == "bring it back"
