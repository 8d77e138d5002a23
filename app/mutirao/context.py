"""What a handler may know of its attempt, and what it may ask and say while it runs."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol
from uuid import UUID

from mutirao.errors import MutiraoError

LONGEST_NOTE = 500
LONGEST_KEY = 200

LOGGER = "mutirao.job"


class Failure(Exception):
    """An attempt's failure that speaks for itself: kept with its `details` instead of a traceback.

    The traceback is kept if it has no details but a cause (`raise … from error`).
    """

    details: Mapping[str, Any] = MappingProxyType({})  # for a subclass that does without our `__init__`

    def __init__(self, reason: str = "", *, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.details = details or {}


class Retry(Failure):
    """Raised by a handler: this attempt failed; try again `after` seconds (None: the job's backoff)."""

    after: float | None = None

    def __init__(
        self, reason: str = "", after: float | None = None, *, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(reason, details=details)
        if after is not None and not (math.isfinite(after) and after >= 0):
            raise ValueError(f"after must be a number of seconds from 0 up, not {after!r}")
        self.after = after


class Discard(Failure):
    """Raised by a handler: this attempt failed and no other can succeed."""


class ContextLost(MutiraoError):
    """The attempt is not its node's any more: nothing may be done in its name."""

    code = "context_lost"


class Link(Protocol):
    """A context's way to its agent."""

    def cancelled(self) -> bool:
        """Whether somebody wants the attempt ended."""

    def progress(self, fraction: float, note: str) -> None:
        """Passes on how far the attempt is; the latest word counts."""

    def once(self, key: str) -> bool:
        """Whether this call is the first of its key; ContextLost if the attempt is over."""


class Alone:
    """The link of a context without an agent: for a handler's own tests."""

    def __init__(self) -> None:
        self._keys: set[str] = set()

    def cancelled(self) -> bool:
        """Nobody is there to cancel."""
        return False

    def progress(self, fraction: float, note: str) -> None:
        """Nobody is there to be told."""

    def once(self, key: str) -> bool:
        """True for the first call of a key on this link."""
        first = key not in self._keys
        self._keys.add(key)
        return first


@dataclass(frozen=True, slots=True)
class Context:
    """What a handler may know of its attempt; `token` grows with every attempt of the job, for fencing.

    May be used from several threads of the handler, in the process that runs it only.
    """

    job_id: UUID
    attempt: int
    deadline: float = math.inf
    link: Link = field(default_factory=Alone, repr=False, compare=False)

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt and replay of the job."""
        return str(self.job_id)

    @property
    def token(self) -> tuple[UUID, int]:
        """The fencing token: whatever the handler writes to should refuse a smaller attempt of the job."""
        return (self.job_id, self.attempt)

    @property
    def log(self) -> logging.Logger:
        """A logger whose lines, from INFO up, go to the attempt's output."""
        return logging.getLogger(LOGGER)

    @property
    def cancelled(self) -> bool:
        """True once somebody wants the attempt ended; it is killed after the handler's `cancel_grace`."""
        return self.link.cancelled()

    def remaining(self) -> float:
        """Seconds until this attempt is killed, never negative (CLOCK_BOOTTIME)."""
        return max(0.0, self.deadline - time.clock_gettime(time.CLOCK_BOOTTIME))

    def progress(self, fraction: float, note: str = "") -> None:
        """Says how far the attempt is, from 0 to 1; seen within about a second, and lost with the node.

        ValueError for a fraction that is none, or a note that is too long or cannot be stored; TypeError.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"a fraction is a number from 0 to 1, not {fraction!r}")
        self.link.progress(float(fraction), _storable("note", note, 0, LONGEST_NOTE))

    def once(self, key: str) -> bool:
        """True for exactly one call per job and key, in all of the job's attempts and replays together.

        What follows a True happens at most once: an attempt that dies right after it is not repeated.
        Waits while PostgreSQL is away. ContextLost when the attempt is not its node's any more, ValueError
        for a key that is empty, longer than 200 characters, or cannot be stored, TypeError for no str.
        """
        return self.link.once(_storable("key", key, 1, LONGEST_KEY))


def _storable(name: str, text: str, least: int, most: int) -> str:
    if not isinstance(text, str):
        raise TypeError(f"the {name} must be a str, not {text!r}")
    if not least <= len(text) <= most:
        raise ValueError(f"the {name} has {len(text)} characters; {least} to {most} are allowed")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"the {name} holds a NUL or a lone surrogate, which PostgreSQL cannot store")
    return text
