"""Trying a handler without a cluster: one attempt in this process, as strict as in a runner."""

from __future__ import annotations

import json
import time
from typing import Any
from uuid import UUID, uuid4

from mutirao.binding import Binding, bind
from mutirao.context import Alone, Context, Link
from mutirao.contract import AnyHandler


def attempt(
    handler: AnyHandler,
    payload: object,
    *,
    number: int = 1,
    job_id: UUID | None = None,
    link: Link | None = None,
) -> Any:
    """The result of one attempt, as JSON gives it back; raises what the handler raises.

    PayloadRefused and ResultRefused for what does not fit its types. `link` answers `once` and `cancelled`:
    one for several attempts remembers their keys.
    """
    raw = json.dumps(payload, ensure_ascii=False, allow_nan=False).encode()
    return json.loads(attempt_of(bind(handler), raw, number=number, job_id=job_id, link=link))


def attempt_of(
    bound: Binding,
    payload: bytes,
    *,
    number: int = 1,
    job_id: UUID | None = None,
    link: Link | None = None,
) -> bytes:
    """The same from JSON to JSON, for a handler that a registry has found."""
    deadline = time.clock_gettime(time.CLOCK_BOOTTIME) + bound.defaults.timeout
    return bound.call(bound.parse(payload), Context(job_id or uuid4(), number, deadline, link or Alone()))
