"""Plain HTTP submissions over connections that stay open: as light a client as Python has."""

from __future__ import annotations

import http.client
import itertools
import json
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from mutirao.bench.parallel import spread
from mutirao.errors import Unavailable
from mutirao.loop import boottime

CREATED = 201
_TIMEOUT = 30.0
_JSON = {"Content-Type": "application/json"}

ECHO = {"handler": "echo", "payload": {"message": "x"}, "max_retries": 0}
CLOCK = {"handler": "bench-clock", "payload": {}}


class Door:
    """One connection to one node's web server."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_TIMEOUT)

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def ready(self) -> bool:
        """True when the node's web server says that it is ready."""
        try:
            return self._send("GET", "/readyz", None)[0] == http.client.OK
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return False

    def post(self, path: str, body: bytes) -> Any:
        """The document that answers an acknowledged submission; Unavailable for any other answer."""
        try:
            status, text = self._send("POST", path, body)
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"the web server does not answer: {error}") from error
        if status != CREATED:
            raise Unavailable(f"the web server answered {status}: {text[:300].decode(errors='replace')}")
        return json.loads(text)

    def _send(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        self._connection.request(method, path, body, _JSON)
        response = self._connection.getresponse()
        return response.status, response.read()


def single_rate(urls: Sequence[str], count: int, connections: int) -> float:
    """Acknowledged jobs per second, one job a request."""
    return count / _post_all(urls, "/api/v1/jobs", [json.dumps(ECHO).encode()] * count, connections)


def batch_rate(urls: Sequence[str], count: int, batch: int, connections: int) -> float:
    """Acknowledged jobs per second, `batch` jobs a request."""
    bodies = [json.dumps({"jobs": [ECHO] * size}).encode() for size in batches(count, batch)]
    return count / _post_all(urls, "/api/v1/jobs/batch", bodies, connections)


def batches(count: int, batch: int) -> Iterator[int]:
    """Sizes that sum up to `count`, all but the last `batch`."""
    return (min(batch, count - start) for start in range(0, count, batch))


def _post_all(urls: Sequence[str], path: str, bodies: Sequence[bytes], connections: int) -> float:
    addresses = itertools.cycle(urls)

    def work(queue: deque[bytes]) -> None:
        with closing(Door(next(addresses))) as door:
            while queue:
                try:
                    body = queue.popleft()
                except IndexError:
                    return
                door.post(path, body)

    started = boottime()
    spread(work, bodies, connections)
    return boottime() - started
