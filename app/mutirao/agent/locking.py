"""Execution locks around a node's claims; with Redis away the claim is authority enough (I10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mutirao import metrics
from mutirao.coordination.locks import ExecutionLocks
from mutirao.domain.job import Outcome
from mutirao.errors import CoordinationUnavailable
from mutirao.logs import get_logger
from mutirao.loop import boottime
from mutirao.store.execution import Attempt, Claim

log = get_logger(__name__)

RENEW_EVERY = 1.0
# A lock younger than this needs no renewal yet; most attempts have ended before.
YOUNG = 3.0


class Locking:
    """Takes, keeps and frees the locks of one incarnation's attempts; one thread only."""

    def __init__(
        self,
        locks: ExecutionLocks,
        owner: str,
        *,
        near: Callable[[], bool],
        kill: Callable[[Attempt, Outcome], None],
    ) -> None:
        self._locks = locks
        self._owner = owner
        self._near = near
        self._kill = kill
        self._taken: dict[Attempt, float] = {}
        self._renewed = 0.0

    def acquire(self, claims: Sequence[Claim]) -> tuple[list[Claim], list[Claim]]:
        """Splits the claims into those that may start and those that another owner's lock forbids."""
        keys = [claim.key for claim in claims]
        answers = self._ask(self._locks.acquire, keys)
        now = boottime()
        granted = [claim for claim, yes in zip(claims, answers, strict=True) if yes]
        refused = [claim for claim, yes in zip(claims, answers, strict=True) if not yes]
        self._taken.update((claim.key, now) for claim in granted)
        if refused:
            metrics.LOCKS_REFUSED.inc(len(refused))
            log.warning("execution_locks_refused", jobs=[str(claim.job) for claim in refused])
        return granted, refused

    def renew(self, held: Iterable[Attempt]) -> None:
        """Prolongs what is held for a while already; an attempt overtaken by a higher one is killed."""
        now = boottime()
        if now - self._renewed < RENEW_EVERY:
            return
        self._renewed = now
        old = [key for key in held if now - self._taken.get(key, now) > YOUNG]
        for key, yes in zip(old, self._ask(self._locks.renew, old), strict=True):
            if not yes:
                self._kill(key, Outcome.INTERRUPTED)

    def release(self, keys: Sequence[Attempt]) -> None:
        """Frees the attempts' locks as far as they are still this owner's."""
        held = [key for key in keys if self._taken.pop(key, None) is not None]
        self._ask(self._locks.release, held)

    def _ask(
        self, call: Callable[[Sequence[Attempt], str], list[bool]], keys: Sequence[Attempt]
    ) -> list[bool]:
        if not keys or not self._near():
            return [True] * len(keys)
        try:
            return call(keys, self._owner)
        except CoordinationUnavailable as error:
            log.debug("locks_not_asked", error=error.message)
            return [True] * len(keys)
