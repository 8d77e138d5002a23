"""Waits that end: every expectation of the acceptance tests has a deadline, none sleeps for luck."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from mutirao.loop import boottime

T = TypeVar("T")


def until(condition: Callable[[], T | None], timeout: float, what: str, *, every: float = 0.05) -> T:
    """The first truthy value of `condition`; AssertionError naming `what` once `timeout` has passed."""
    deadline = boottime() + timeout
    while True:
        value = condition()
        if value:
            return value
        if boottime() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {what}")
        time.sleep(every)
