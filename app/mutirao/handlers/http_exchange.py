"""The requests behind one `http` job: one for each redirect, with no more than the next host may be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

import mutirao
from mutirao.contract import Context, Discard
from mutirao.handlers.http_message import Request, Response
from mutirao.handlers.http_target import parse, target_of
from mutirao.handlers.http_wire import Message, send
from mutirao.hosts import HostRules

_MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LONGEST_WAIT = 3600.0
# What another origin may be told too.
_HARMLESS = frozenset({
    "accept", "accept-encoding", "accept-language", "content-type", "idempotency-key", "user-agent",
})  # fmt: skip


def exchange(request: Request, context: Context, rules: HostRules) -> tuple[Response, float | None]:
    """The answer at the end of all redirects, and how long it asks to be left alone.

    Discard for a host that is not allowed on any hop, Retry for what goes wrong on the way.
    """
    message, target = _first(request, context), target_of(parse(request.url), rules)
    for _ in range(_MOST_REDIRECTS + 1):
        answer = send(message, target, context)
        if not _redirects(answer, request):
            return answer, _wait(answer.headers)
        following = target_of(_joined(target.url, answer.headers["location"]), rules)
        message = _following(message, answer.status, same_origin=following.origin == target.origin)
        target = following
    raise Discard(f"more than {_MOST_REDIRECTS} redirects, the last one to {target.url}")


def _first(request: Request, context: Context) -> Message:
    content, kind = request.content()
    headers = {
        "accept": "*/*",
        "accept-encoding": "identity",  # no bomb to unpack
        "idempotency-key": context.idempotency_key,
        "user-agent": f"mutirao/{mutirao.__version__}",
    }
    if kind:
        headers["content-type"] = kind
    given = {name.lower(): value for name, value in request.headers.items()}
    return Message(request.method, headers | given, content)


def _redirects(answer: Response, request: Request) -> bool:
    wanted = request.expect is not None and request.expects(answer.status)
    return (
        request.follow_redirects
        and answer.status in _REDIRECTS
        and "location" in answer.headers
        and not wanted
    )


def _following(message: Message, status: int, *, same_origin: bool) -> Message:
    headers = dict(message.headers)
    if not same_origin:
        headers = {name: value for name, value in headers.items() if name in _HARMLESS}
    if (status == 303 and message.method != "HEAD") or (status in {301, 302} and message.method == "POST"):
        headers.pop("content-type", None)
        return Message("GET", headers, b"")
    return replace(message, headers=headers)


def _joined(base: httpx.URL, location: str) -> httpx.URL:
    try:
        return base.join(location)
    except (httpx.InvalidURL, ValueError) as error:
        raise Discard(f"redirected to what is no URL: {error}") from None


def _wait(headers: Mapping[str, str]) -> float | None:
    """What Retry-After asks for, in seconds and within an hour; a date counts from the server's own."""
    asked = headers.get("retry-after", "")
    if asked.isdecimal():
        return min(float(asked), _LONGEST_WAIT)
    try:
        until = parsedate_to_datetime(asked)
        now = parsedate_to_datetime(headers["date"]) if "date" in headers else datetime.now(UTC)
        return min(max((until - now).total_seconds(), 0.0), _LONGEST_WAIT)
    except (ValueError, TypeError):
        return None
