"""`fail`: fails always, or as often as asked."""

from __future__ import annotations

from pydantic import Field

from mutirao.contract import Context, Payload, handler


class Failures(Payload):
    """How many attempts fail before one succeeds; without a number, all do."""

    times: int | None = Field(default=None, ge=0)


class Survived(Payload):
    """The attempt that succeeded."""

    attempt: int


class AskedToFail(RuntimeError):
    """The failure that the payload asked for."""


@handler("fail")
def fail(payload: Failures, context: Context) -> Survived:
    """Fails every attempt, or the first `times` of the job's attempts."""
    if payload.times is None or context.attempt <= payload.times:
        raise AskedToFail(f"attempt {context.attempt} fails, as asked")
    return Survived(attempt=context.attempt)
