"""One HTTP request and its answer: to the addresses that were checked and no others, read within bounds."""

from __future__ import annotations

import math
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import httpx

from mutirao.contract import Context, Retry
from mutirao.handlers.http_message import Response
from mutirao.handlers.http_target import Target
from mutirao.hosts import Address

_READ, _KEPT = 1 << 20, 1 << 16
_CONNECT = 10.0
_SHOWN = (
    "content-type", "content-encoding", "content-language", "date", "etag", "last-modified", "link",
    "location", "retry-after", "x-request-id",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent; the names of headers are in lower case."""

    method: str
    headers: Mapping[str, str]
    content: bytes


def send(message: Message, target: Target, context: Context) -> Response:
    """The answer, whatever its status; Retry for what goes wrong on the way."""
    for address in target.addresses:
        try:
            return _send_to(address, message, target, context)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            failure: httpx.TransportError = error  # nothing was sent yet: the next address may do
        except httpx.TransportError as error:
            failure = error
            break
    kind = type(failure).__name__
    raise Retry(f"{target.url}: {kind}: {failure}", details={"error": kind}) from failure


def _send_to(address: Address, message: Message, target: Target, context: Context) -> Response:
    left = None if math.isinf(context.remaining()) else context.remaining() + 0.001
    request = httpx.Request(
        message.method,
        target.at(address),
        headers={**message.headers, "host": target.url.netloc.decode("ascii")},
        content=message.content or None,
        extensions={
            "timeout": {
                "connect": min(_CONNECT, left or _CONNECT),
                "read": left,
                "write": left,
                "pool": left,
            },
            "sni_hostname": target.server_name,
        },
    )
    # A transport of its own: another host behind the same address must not get this one's connection.
    with httpx.HTTPTransport(verify=_certificates(), trust_env=False) as transport:
        answer = transport.handle_request(request)
        try:
            body, dropped = _read(answer)
        finally:
            answer.close()
    return Response(
        status=answer.status_code,
        url=str(target.url),
        headers={name: _clean(answer.headers[name]) for name in _SHOWN if name in answer.headers},
        body=_text(body, answer.charset_encoding),
        body_dropped=dropped,
    )


@cache
def _certificates() -> ssl.SSLContext:
    """The authorities that this machine trusts, its operator's own among them."""
    return ssl.create_default_context()


def _read(answer: httpx.Response) -> tuple[bytes, int]:
    """The first 64 KiB of the body, and how many bytes follow: at least, when it is endless."""
    kept, size = bytearray(), 0
    for chunk in answer.iter_raw():
        kept += chunk[: max(0, _KEPT - size)]
        size += len(chunk)
        if size >= _READ:
            stated = answer.headers.get("content-length", "")
            size = max(size, int(stated) if stated.isdecimal() else 0)
            break
    return bytes(kept), size - len(kept)


def _text(body: bytes, charset: str | None) -> str:
    try:
        text = body.decode(charset or "utf-8", errors="replace")
    except (LookupError, ValueError):  # what the server names need not be a charset
        text = body.decode(errors="replace")
    return _clean(text)


def _clean(text: str) -> str:
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")
