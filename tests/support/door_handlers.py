"""Handlers whose contracts differ from the defaults in every field."""

from __future__ import annotations

from typing import Any

from mutirao.context import Context
from mutirao.contract import handler
from mutirao.domain.job import Backoff


@handler("particular", queue="special", timeout=7.5, max_retries=0, backoff=Backoff(2.0, 9.0), priority=0)
def particular(payload: dict[str, int]) -> None:
    """Takes integers by name."""


@handler("anything")
def anything(payload: Any) -> Any:
    """Takes any JSON at all."""
    return payload


@handler("second_time", max_retries=0)
def second_time(payload: Any, context: Context) -> Any:
    """Takes any JSON, and returns it to whoever asks twice."""
    if context.attempt == 1:
        raise ValueError("once more, please")
    return payload
