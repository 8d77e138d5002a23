"""Reading a request's body: JSON only, bounded, whole; and writing JSON exactly."""

from __future__ import annotations

from typing import Any

import msgspec
from flask import Response, request
from werkzeug.exceptions import RequestEntityTooLarge, UnsupportedMediaType

from mutirao.loop import boottime

MAX_BODY = 1 << 20
MAX_BATCH_BODY = 16 << 20
_DRAIN_BYTES = 64 << 20
_DRAIN_SECONDS = 5.0


def read_body(limit: int) -> bytes:
    """The whole body, at most `limit` bytes, with a length or chunked; else 413; 415 unless it is JSON."""
    if request.mimetype != "application/json" or request.headers.get("Content-Encoding"):
        raise UnsupportedMediaType("send the body as `Content-Type: application/json`, not encoded")
    request.max_content_length = limit
    try:
        return request.get_data(cache=False)
    except RequestEntityTooLarge:
        _drain()
        raise RequestEntityTooLarge(f"the body may have at most {limit} bytes") from None


def _drain() -> None:
    # Closing a socket with unread data resets the connection, and the client may never see the answer.
    stream = request.environ["wsgi.input"]
    until, left = boottime() + _DRAIN_SECONDS, _DRAIN_BYTES
    while left > 0 and boottime() < until:
        chunk = stream.read(1 << 16)
        if not chunk:
            return
        left -= len(chunk)


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """The value as strict JSON; JSON text kept as `msgspec.Raw` goes out as it is."""
    return Response(msgspec.json.encode(value), status, headers, content_type="application/json")
