"""The leader key: who may try to take the term. The term itself is PostgreSQL's (I3)."""

from __future__ import annotations

from enum import Enum

import redis

from mutirao.coordination.connection import wrapped
from mutirao.coordination.keys import DEFAULT, Keys
from mutirao.coordination.scripts import Script

LEADER_TTL_MS = 5000

_EXPIRE_IF_EQUAL = Script("expire_if_equal.lua")
_DELETE_IF_EQUAL = Script("delete_if_equal.lua")


class Renewal(Enum):
    """What a renewal found: the key prolonged, gone, or someone else's."""

    RENEWED = 1
    MISSING = 0
    FOREIGN = -1


class LeaderKey:
    """`SET NX` with a time to live, whose owner alone can prolong or delete it.

    A holder is "<node>:<incarnation>:<nonce>", unique to one candidacy. Everything here raises
    CoordinationUnavailable when Redis did not answer, and then the key may or may not have changed.
    """

    def __init__(self, client: redis.Redis, keys: Keys = DEFAULT) -> None:
        self._client = client
        self._key = keys.leader

    def take(self, holder: str, ttl_ms: int = LEADER_TTL_MS) -> bool:
        """True if the key is this holder's now, also where an earlier attempt took it without an answer."""
        with wrapped():
            before = self._client.set(self._key, holder, nx=True, px=ttl_ms, get=True)
        if before == holder:
            return self.renew(holder, ttl_ms) is Renewal.RENEWED
        return before is None

    def renew(self, holder: str, ttl_ms: int = LEADER_TTL_MS) -> Renewal:
        """Prolongs the key if and only if it is this holder's."""
        with wrapped():
            return Renewal(_EXPIRE_IF_EQUAL(self._client, [self._key], [holder, ttl_ms]))

    def release(self, holder: str) -> bool:
        """Deletes the key if and only if it is this holder's."""
        with wrapped():
            return not _DELETE_IF_EQUAL(self._client, [self._key], [holder])

    def holder(self) -> str | None:
        """Who holds the key now, for display; a read proves nothing."""
        with wrapped():
            held = self._client.get(self._key)
        return None if held is None else str(held)
