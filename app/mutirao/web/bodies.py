"""Reading a request's body: JSON only, bounded, whole; and writing JSON exactly."""

from __future__ import annotations

from typing import Any, BinaryIO

import msgspec
from flask import Response, request
from gunicorn.http.errors import ParseException  # type: ignore[import-untyped]
from werkzeug.exceptions import BadRequest, RequestEntityTooLarge, UnsupportedMediaType

from mutirao.errors import InvalidInput
from mutirao.loop import boottime

MAX_BODY = 1 << 20
MAX_BATCH_BODY = 16 << 20
_DRAIN_BYTES = 64 << 20
_DRAIN_SECONDS = 5.0


def read_body(limit: int) -> bytes:
    """The whole body, at most `limit` bytes, with a length or chunked; else 413; 415 unless it is JSON."""
    charset = request.mimetype_params.get("charset", "utf-8").lower()
    plain = request.mimetype == "application/json" and charset == "utf-8"
    if not plain or request.headers.get("Content-Encoding"):
        raise UnsupportedMediaType("send the body as `Content-Type: application/json`, in UTF-8, not encoded")
    stream, length = request.environ["wsgi.input"], request.content_length
    try:
        # Werkzeug's own reader takes a chunked body that is too long, or one cut short, for a whole one.
        body = b"" if length is not None and length > limit else _read(stream, length, limit)
        if (length or len(body)) > limit:
            _drain(stream)
            raise RequestEntityTooLarge(f"the body may have at most {limit} bytes")
    except (OSError, ParseException):
        raise BadRequest("the body is not complete") from None
    if length is not None and len(body) < length:
        raise BadRequest("the body is shorter than its Content-Length")
    return body


def refuse_body() -> None:
    """Refuses a body where none is taken: it would be ignored."""
    stream = request.environ["wsgi.input"]
    try:
        given = bool(stream.read(1))
        if given:
            _drain(stream)
    except (OSError, ParseException):
        given = True
    if given:
        raise InvalidInput("", "this operation takes no body")


def _read(stream: BinaryIO, length: int | None, limit: int) -> bytes:
    return stream.read(limit + 1 if length is None else length)


def _drain(stream: BinaryIO) -> None:
    # Closing a socket with unread data resets the connection, and the client may never see the answer.
    until, left = boottime() + _DRAIN_SECONDS, _DRAIN_BYTES
    while left > 0 and boottime() < until:
        chunk = stream.read(1 << 16)
        if not chunk:
            return
        left -= len(chunk)


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """The value as strict JSON; JSON text kept as `msgspec.Raw` goes out as it is."""
    return Response(msgspec.json.encode(value), status, headers, content_type="application/json")
