"""`http`: one HTTP request to a host that the operator allows, repeated for what may pass, and only then."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue

from mutirao.contract import Context, Discard, HandlerDefaults, Payload, Retry
from mutirao.hosts import HostRules

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# Who is spoken to and how the message is framed is not the caller's to say.
_OURS = frozenset({
    "connection", "content-length", "expect", "host", "keep-alive", "proxy-authorization", "proxy-connection",
    "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip
_EXCERPT = 1000


def _sound(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name for a header")
        if name.lower() in _OURS:
            raise ValueError(f"the header {name!r} cannot be set")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"the value of {name!r} holds characters that a header cannot")
    return headers


class Request(Payload):
    """What to send, which statuses are a success (2xx unless given), and whether to follow redirects.

    A text is sent as it is, any other body as JSON; null is none.
    """

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    url: Annotated[str, Field(max_length=8192, pattern=r"^[Hh][Tt][Tt][Pp][Ss]?://")]
    headers: Annotated[dict[str, str], AfterValidator(_sound)] = Field(default_factory=dict)
    body: JsonValue = None
    expect: Annotated[list[Annotated[int, Field(ge=100, le=599)]], Field(min_length=1)] | None = None
    follow_redirects: bool = True

    def content(self) -> tuple[bytes, str]:
        """The body's bytes, and what they are; ('' for no body)."""
        if self.body is None:
            return b"", ""
        if isinstance(self.body, str):
            return self.body.encode(), "text/plain; charset=utf-8"
        return json.dumps(self.body, ensure_ascii=False, separators=(",", ":")).encode(), "application/json"

    def expects(self, status: int) -> bool:
        """Whether the status is a success."""
        return status in self.expect if self.expect is not None else 200 <= status <= 299


class Response(Payload):
    """The final answer: some of its headers, the first 64 KiB of its body as text, and where it came from."""

    status: int
    url: str
    headers: dict[str, str]
    body: str
    body_dropped: int


class Http:
    """Sends one HTTP request, with the job's id as its Idempotency-Key.

    5xx, 408, 429 and whatever goes wrong on the way are tried again, Retry-After being heeded; any other
    status that is not expected, and hosts that are not allowed, are not.
    """

    name = "http"
    payload_type = Request
    result_type = Response
    defaults = HandlerDefaults(timeout=60.0)

    def __init__(self, hosts: Sequence[str]) -> None:
        self._rules = HostRules(hosts)

    def run(self, payload: Request, context: Context) -> Response:
        """The answer, if its status is expected."""
        # The client's memory is spent by runners that have such a job.
        from mutirao.handlers.http_exchange import exchange  # noqa: PLC0415

        response, after = exchange(payload, context, self._rules)
        if payload.expects(response.status):
            return response
        message = f"{payload.method} {response.url}: status {response.status}"
        details = {"status": response.status, "body": response.body[:_EXCERPT]}
        if response.status in {408, 429} or response.status >= 500:
            raise Retry(message, after, details=details)
        raise Discard(message, details=details)
