"""The agent's metrics on a port of their own, for whoever shows the token where one is set."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import make_wsgi_app

from mutirao import metrics
from mutirao.logs import get_logger
from mutirao.services.access import Access
from mutirao.services.listening import listen
from mutirao.settings import Settings

log = get_logger(__name__)

Environ = dict[str, Any]
Start = Callable[..., Any]


def expose(settings: Settings) -> None:
    """Serves GET /metrics on the agent's port, if it has one, until the process ends.

    Raises AlreadyRunning when the port is taken, SettingsError when it cannot be had.
    """
    if settings.agent_port is None:
        return
    listener = listen(settings.web_host, settings.agent_port, "agent_port")
    server = _Server((settings.web_host, settings.agent_port), _Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    # What binding would have set, less its look-up of the host's name.
    server.server_name, server.server_port = settings.web_host, settings.agent_port
    server.setup_environ()
    server.set_app(_guarded(Access(settings.api_token)))
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()


def _guarded(access: Access) -> Callable[[Environ, Start], Iterable[bytes]]:
    exposition = make_wsgi_app(metrics.AGENT)

    def answer(environ: Environ, start: Start) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/metrics":
            return _refuse(start, "404 Not Found", "only /metrics is here")
        if not access.granted(environ.get("HTTP_AUTHORIZATION", "")):
            return _refuse(
                start, "401 Unauthorized", "a valid token is required", ("WWW-Authenticate", "Bearer")
            )
        found: Iterable[bytes] = exposition(environ, start)
        return found

    return answer


def _refuse(start: Start, status: str, why: str, *headers: tuple[str, str]) -> Iterable[bytes]:
    start(status, [("Content-Type", "text/plain; charset=utf-8"), *headers])
    return [f"{why}\n".encode()]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, _request: Any, _client: Any) -> None:
        log.debug("scrape_broke_off", exc_info=True)


class _Handler(WSGIRequestHandler):
    # Whoever says nothing for so long does not keep a thread.
    timeout = 10

    def log_message(self, *_: Any) -> None:
        """Says nothing of a scrape every few seconds."""
