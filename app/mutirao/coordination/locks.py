"""Execution locks: at most one owner per job attempt, a higher attempt always winning (I2)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import redis

from mutirao.coordination.connection import wrapped
from mutirao.coordination.keys import DEFAULT, Keys
from mutirao.coordination.scripts import Script

_HOLD = Script("hold_locks.lua")
_DELETE_IF_EQUAL = Script("delete_if_equal.lua")

Claim = tuple[UUID, int]


class ExecutionLocks:
    """Locks of whole batches of (job, attempt) in one script call each.

    `owner` is "<node>:<incarnation>". Raises CoordinationUnavailable when Redis did not answer; then the
    claim in PostgreSQL is authority enough.
    """

    def __init__(self, client: redis.Redis, ttl: float, keys: Keys = DEFAULT) -> None:
        self._client = client
        self._keys = keys
        self._ttl_ms = int(ttl * 1000)

    def acquire(self, claims: Sequence[Claim], owner: str) -> list[bool]:
        """For each claim: True if it is locked for this owner now, False if it must be handed back."""
        return self._each(_HOLD, claims, [owner, self._ttl_ms, *(attempt for _, attempt in claims)])

    def renew(self, claims: Sequence[Claim], owner: str) -> list[bool]:
        """For each claim: True if prolonged or, where lost, set again; False if its runner must be killed."""
        return self.acquire(claims, owner)

    def release(self, claims: Sequence[Claim], owner: str) -> list[bool]:
        """Deletes what is still exactly this owner's; False where it was not."""
        return self._each(_DELETE_IF_EQUAL, claims, [f"{attempt}:{owner}" for _, attempt in claims])

    def _each(self, script: Script, claims: Sequence[Claim], args: Sequence[str | int]) -> list[bool]:
        if not claims:
            return []
        with wrapped():
            refused = set(script(self._client, [self._keys.job_lock(job) for job, _ in claims], args))
        return [position not in refused for position in range(1, len(claims) + 1)]
