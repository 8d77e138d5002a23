"""A resolver under a test's control."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator
from typing import Any

import pytest


class Names:
    """A resolver that gives each name its next list of addresses, and counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lists: dict[str, Iterator[list[str]]] = {}
        self.asked: list[str] = []
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._look_up)

    def point(self, name: str, *lists: list[str]) -> None:
        self.lists[name] = itertools.chain(lists[:-1], itertools.repeat(lists[-1]))

    def _look_up(self, host: Any, port: Any, *rest: Any, **named: Any) -> Any:
        text = host.decode() if isinstance(host, bytes) else host
        if text.replace(".", "").replace(":", "").isalnum() and not text[-1].isalpha():
            return self._real(host, port, *rest, **named)
        self.asked.append(text)
        if text not in self.lists:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            found for address in next(self.lists[text]) for found in self._real(address, port, *rest, **named)
        ]
