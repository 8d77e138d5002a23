"""Ports on loopback: which are free, and who has the others."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator

import psutil

from mutirao.errors import AlreadyRunning

HOST = "127.0.0.1"
LAST = 65535


def require_free(ports: Iterable[int]) -> None:
    """Raises AlreadyRunning naming the first port that is taken and, if we may know, by whom."""
    for port in ports:
        if not is_free(port):
            raise AlreadyRunning(
                f"port {port} on {HOST} is taken{_by_whom(port)}",
                hint="choose another first port: --port 9080 (or make run ARGS='--port 9080')",
            )


def is_free(port: int) -> bool:
    """True when a server could listen on `port` now."""
    with socket.socket() as probe:
        # As servers do: connections of an earlier one, still fading out, do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_from(first: int) -> Iterator[int]:
    """Free ports, `first` or above."""
    return (port for port in range(first, LAST + 1) if is_free(port))


def answers(port: int) -> bool:
    """True when something accepts connections on `port`."""
    try:
        socket.create_connection((HOST, port), timeout=0.5).close()
    except OSError:
        return False
    return True


def _by_whom(port: int) -> str:
    try:
        for connection in psutil.net_connections(kind="tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                return f" by pid {connection.pid} ({psutil.Process(connection.pid).name()})"
    except psutil.Error:
        pass
    return ""
