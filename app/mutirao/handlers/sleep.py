"""`sleep`: takes its time."""

from __future__ import annotations

import time

from pydantic import Field

from mutirao.contract import Payload, handler


class Nap(Payload):
    """How long to sleep, in seconds; a week at most."""

    seconds: float = Field(ge=0, le=7 * 86400, allow_inf_nan=False)


@handler("sleep")
def sleep(payload: Nap) -> Nap:
    """Sleeps for the given seconds and returns them."""
    time.sleep(payload.seconds)
    return payload
