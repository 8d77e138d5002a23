"""The handler of `mutirao bench` that says when it was started; its nodes load it, no other does."""

from __future__ import annotations

import time

from mutirao.contract import Payload, handler


class Nothing(Payload):
    """No fields."""


@handler("bench-clock", max_retries=0)
def clock(payload: Nothing) -> float:
    """Seconds since the epoch, by the clock that PostgreSQL on this machine reads too."""
    return time.time()
