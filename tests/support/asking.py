"""One attempt of the `http` handler, in this process."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from mutirao.handlers.http import Http
from mutirao.testing import attempt

JOB = UUID(int=5)
LOOPBACK = ["127.0.0.0/8"]


def ask(url: str, hosts: list[str] | None = None, **payload: Any) -> dict[str, Any]:
    """The result; raises what the handler raises. Loopback is allowed unless told other hosts."""
    found: dict[str, Any] = attempt(Http(hosts or LOOPBACK), {"url": url, **payload}, job_id=JOB)
    return found
