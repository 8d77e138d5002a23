"""The web server process: gunicorn with one worker and a few threads, started from code."""

from __future__ import annotations

import errno
import socket
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]

from mutirao.errors import AlreadyRunning, SettingsError
from mutirao.settings import Settings
from mutirao.web.factory import create_app

THREADS = 8


class Server(BaseApplication):  # type: ignore[misc]
    """Serves one node's application on a socket that is already bound."""

    def __init__(self, settings: Settings, listener: int) -> None:
        self._settings = settings
        self._listener = listener
        super().__init__()

    def load_config(self) -> None:
        """Fixes every option; neither a file nor the environment of gunicorn has a say."""
        options: dict[str, Any] = {
            "bind": f"fd://{self._listener}",
            "workers": 1,
            "worker_class": "gthread",
            "threads": THREADS,
            "keepalive": 30,
            "timeout": 60,
            "graceful_timeout": 10,
            "worker_tmp_dir": "/dev/shm",  # noqa: S108 - gunicorn makes an unlinked file there, 0600
            "proc_name": f"mutirao-web {self._settings.node_name}",
            "forwarded_allow_ips": "",
            "limit_request_line": 8190,
            "loglevel": "warning" if self._settings.log_level == "info" else self._settings.log_level,
        }
        for name, value in options.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """The application, made in the worker, so that no connection or thread crosses the fork."""
        return create_app(self._settings)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; AlreadyRunning when the port is taken, SettingsError when it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise AlreadyRunning(
                f"port {port} on {host} is taken", hint="end what listens there, or set another web_port"
            ) from None
        raise SettingsError(f"cannot listen on {host} port {port}: {error.strerror or error}") from None
    return listener


def serve(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT; then what is being answered is finished first."""
    # The server closes the descriptor itself, so nobody else may.
    Server(settings, listen(settings.web_host, settings.web_port).detach()).run()
