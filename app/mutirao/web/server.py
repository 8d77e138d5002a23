"""The web server process: gunicorn with a few workers of a few threads each, started from code."""

from __future__ import annotations

import importlib
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]
from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped]

from mutirao.services.listening import listen
from mutirao.settings import Settings
from mutirao.web.shared_metrics import Places

THREADS = 8


class Worker(ThreadWorker):  # type: ignore[misc]
    """A worker of threads that lets go of the socket as soon as it stops, not with its last answer."""

    def set_accept_enabled(self, enabled: bool) -> None:
        """Told for the last time when the worker stops: whoever comes then is refused, and asks elsewhere."""
        super().set_accept_enabled(enabled)
        if not self.alive:
            for listener in self.sockets:
                listener.close()


class Server(BaseApplication):  # type: ignore[misc]
    """Serves one node's application on a socket that is already bound."""

    def __init__(self, settings: Settings, listener: int, places: Places) -> None:
        self._settings = settings
        self._listener = listener
        self._places = places
        super().__init__()

    def load_config(self) -> None:
        """Fixes every option; neither a file nor the environment of gunicorn has a say."""
        options: dict[str, Any] = {
            "bind": f"fd://{self._listener}",
            "workers": self._settings.web_workers,
            "worker_class": Worker,
            "threads": THREADS,
            "max_requests": self._settings.web_max_requests,
            "max_requests_jitter": self._settings.web_max_requests // 5,
            "keepalive": 30,
            "timeout": 60,
            "graceful_timeout": 10,
            "worker_tmp_dir": "/dev/shm",  # noqa: S108 - gunicorn makes an unlinked file there, 0600
            "proc_name": f"mutirao-web {self._settings.node_name}",
            "forwarded_allow_ips": "",
            # Else every web server of this user would open the same socket to command it by.
            "control_socket_disable": True,
            "pre_fork": self._places.pre_fork,
            "post_fork": self._places.post_fork,
            "child_exit": self._places.child_exit,
            "limit_request_line": 8190,
            # An idempotency key that is much too long is refused by name, not by the server.
            "limit_request_field_size": 16380,
            "loglevel": "warning" if self._settings.log_level == "info" else self._settings.log_level,
        }
        for name, value in options.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """The application, made in the worker, so that no connection or thread crosses the fork."""
        from mutirao.web.factory import create_app  # noqa: PLC0415 - defines metrics: they are shared first

        return create_app(self._settings)


def serve(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT; then what is being answered is finished first."""
    # First of all: who finds the port taken must not touch the files of whoever has it.
    listener = listen(settings.web_host, settings.web_port, "web_port")
    places = Places(settings.runtime_dir / "web-metrics")
    places.share()
    # Before any worker is: they share the memory of what is imported here.
    importlib.import_module("mutirao.web.factory")
    # The server closes the descriptor itself, so nobody else may.
    Server(settings, listener.detach(), places).run()
