"""What the `http` handler takes and gives."""

from __future__ import annotations

import json
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue

from mutirao.contract import Payload

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# Who is spoken to and how the message is framed is not the caller's to say.
_OURS = frozenset({
    "connection", "content-length", "expect", "host", "keep-alive", "proxy-authorization", "proxy-connection",
    "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip


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
