"""One way to reach Redis: bounded, without retries of its own, and with its errors wrapped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from mutirao.errors import CoordinationUnavailable, SettingsError

# For those who hand a client on without using it.
Redis = redis.Redis


def connect(url: str, *, timeout: float = 1.0) -> redis.Redis:
    """A thread-safe client that connects when first used; no call on it sends anything twice.

    A silent server is given up after `timeout` seconds without a byte. A command is never repeated behind the
    caller's back: each beat's value has to be written at most once, or an old one could hide a newer.
    """
    try:
        return redis.Redis.from_url(
            url,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
            retry_on_error=[],
            retry_on_timeout=False,
            health_check_interval=0,
            protocol=2,
            driver_info=None,
            decode_responses=True,
            encoding_errors="replace",
        )
    except ValueError as error:
        raise SettingsError("redis is not a usable URL", hint="redis://…, rediss://… or unix://…") from error


@contextmanager
def wrapped() -> Iterator[None]:
    """Turns whatever the driver raises into CoordinationUnavailable."""
    try:
        yield
    except redis.RedisError as error:
        raise CoordinationUnavailable(f"Redis: {type(error).__name__}: {error}") from error
