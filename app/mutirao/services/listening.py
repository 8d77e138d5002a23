"""Sockets that this node listens on, had before anything else is begun."""

from __future__ import annotations

import errno
import socket

from mutirao.errors import AlreadyRunning, SettingsError


def listen(host: str, port: int, setting: str) -> socket.socket:
    """A listening socket; AlreadyRunning when the port is taken, SettingsError when it cannot be had.

    `setting` is the one to change where the port is taken.
    """
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
                f"port {port} on {host} is taken", hint=f"end what listens there, or set another {setting}"
            ) from None
        raise SettingsError(f"cannot listen on {host} port {port}: {error.strerror or error}") from None
    return listener
