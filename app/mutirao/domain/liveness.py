"""Who is alive: all arithmetic of beats, self-fence and loss, pure; times are CLOCK_BOOTTIME seconds (I8)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

# A node stops this much before others may think it has: covers the guard's own reaction time.
MARGIN = 1.0
# Longer without an accepted Redis beat, and what was seen before no longer counts.
REDIS_GAP = 2.0
# Redis is declared off after this long without an accepted beat …
REDIS_OFF_AFTER = 10.0
# … by a node whose PostgreSQL beat was accepted this recently; and on again if Redis's was.
FRESH = 2.0


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """The settings that both sides of a judgement must share, in seconds; kept in one row in PostgreSQL."""

    lease: float = 10.0
    guard: float = 2.0
    store_outage: float = 60.0


@dataclass(frozen=True, slots=True)
class RedisReading:
    """One Redis beat: `started` before it was sent, `finished` after the reply, counters only if accepted.

    `counters` holds the value of every peer's key that exists; values are only ever compared for equality.
    """

    started: float
    finished: float
    accepted: bool
    run_id: str = ""
    counters: Mapping[UUID, str] | None = None


@dataclass(frozen=True, slots=True)
class NodeBeat:
    """A row of `beats` as committed."""

    incarnation: int
    counter: int
    redis_on: bool


@dataclass(frozen=True, slots=True)
class StoreReading:
    """One accepted PostgreSQL beat and the rows read with it; `identity` names the server and its history."""

    started: float
    finished: float
    identity: str
    rows: Mapping[UUID, NodeBeat]


@dataclass(frozen=True, slots=True)
class Verdict:
    """This node is lost, provided that its row still says exactly this when the loss is written."""

    node: UUID
    incarnation: int
    counter: int
    redis_on: bool


def deadline(latest_pg: float, latest_redis: float | None, settings: LeaseSettings) -> float:
    """When a node must have stopped, by the starts of its latest accepted beats; None: Redis has no say."""
    latest = latest_pg if latest_redis is None else max(latest_pg, latest_redis)
    return min(latest + settings.lease, latest_pg + settings.store_outage) - MARGIN


class RedisSwitch:
    """Whether a node's Redis beats count for it: not from sending `off` until `on` was acknowledged."""

    def __init__(self, now: float) -> None:
        self._on = True
        self._counts = False
        self._latest_redis = now
        self._latest_pg = -math.inf

    @property
    def counts(self) -> bool:
        """True while everyone who could declare this node lost must heed its Redis beats."""
        return self._counts

    def sending(self, now: float) -> bool:
        """The flag to send with a PostgreSQL beat; when it is False, Redis has stopped counting already."""
        silent = now - self._latest_redis
        if self._on and silent > REDIS_OFF_AFTER and now - self._latest_pg <= FRESH:
            self._on = False
        elif not self._on and silent <= FRESH:
            self._on = True
        if not self._on:
            self._counts = False
        return self._on

    def pg_accepted(self, started: float, redis_on: bool) -> None:
        """The PostgreSQL beat that began at `started` and carried `redis_on` is known to be committed."""
        self._latest_pg = max(self._latest_pg, started)
        self._counts = redis_on and self._on

    def redis_accepted(self, started: float) -> None:
        """The Redis beat that began at `started` was accepted."""
        self._latest_redis = max(self._latest_redis, started)


class SelfLease:
    """One incarnation's own right to execute; `now` at birth is the start of its committed registration.

    Beats of one store must be reported in order. Whoever sends a PostgreSQL beat first asks `sending`, then
    hands the (perhaps earlier) `deadline` to the guard, and only then sends.
    """

    def __init__(self, settings: LeaseSettings, now: float) -> None:
        self._settings = settings
        self._switch = RedisSwitch(now)
        self._pg = now
        self._redis: float | None = None

    def sending(self, now: float) -> bool:
        """The `redis_on` flag of the PostgreSQL beat about to be sent; may move the deadline back."""
        return self._switch.sending(now)

    def pg_accepted(self, started: float, redis_on: bool) -> None:
        """Notes a committed PostgreSQL beat with the flag it carried."""
        self._pg = max(self._pg, started)
        self._switch.pg_accepted(started, redis_on)

    def redis_accepted(self, started: float) -> None:
        """Notes an accepted Redis beat."""
        self._redis = started if self._redis is None else max(self._redis, started)
        self._switch.redis_accepted(started)

    def deadline(self) -> float:
        """When every runner of this incarnation must be dead unless another beat is accepted before."""
        return deadline(self._pg, self._redis if self._switch.counts else None, self._settings)


@dataclass(frozen=True, slots=True)
class _Key:
    value: str
    since: float


@dataclass(frozen=True, slots=True)
class _Row:
    value: NodeBeat
    since: float


class Observer:
    """What one agent saw move, per store; a verdict can only follow from its own accepted beats.

    Movement is dated by the `finished` of the reading that showed it, silence ends at the `started` of the
    last accepted one; so no pause of the observer, wherever it falls, makes a silence look longer.
    """

    def __init__(self, settings: LeaseSettings) -> None:
        self._settings = settings
        self._keys: dict[UUID, _Key] = {}
        self._run_id = ""
        self._redis_until = -math.inf
        self._rows: dict[UUID, _Row] = {}
        self._identity = ""
        self._identity_since = math.inf
        self._pg_steady_since = math.inf
        self._pg_until = -math.inf

    def redis_read(self, reading: RedisReading) -> None:
        """Takes in a Redis beat; one that was not accepted proves nothing and is ignored.

        After a gap, on another server, or where a key is missing, silence counts from now on only.
        """
        if not reading.accepted:
            return
        gap = reading.started - self._redis_until > REDIS_GAP
        before = {} if gap or reading.run_id != self._run_id else self._keys
        self._keys = {
            node: old if (old := before.get(node)) and old.value == value else _Key(value, reading.finished)
            for node, value in (reading.counters or {}).items()
        }
        self._run_id = reading.run_id
        self._redis_until = reading.started

    def pg_read(self, reading: StoreReading) -> None:
        """Takes in an accepted PostgreSQL beat; what did not change across an outage did not move."""
        if reading.identity != self._identity:
            self._identity, self._identity_since = reading.identity, reading.finished
        if reading.started - self._pg_until > FRESH:
            self._pg_steady_since = reading.finished
        self._rows = {
            node: old if (old := self._rows.get(node)) and old.value == row else _Row(row, reading.finished)
            for node, row in reading.rows.items()
        }
        self._pg_until = reading.started

    def lost(self) -> list[Verdict]:
        """The nodes that cannot be executing any more, as of the last accepted readings."""
        if self._pg_until - self._identity_since < self._settings.guard:
            return []
        return [
            Verdict(node, row.value.incarnation, row.value.counter, row.value.redis_on)
            for node, row in self._rows.items()
            if self._is_lost(node, row)
        ]

    def stale_nodes(self, limit: float = 3.0) -> set[UUID]:
        """Nodes whose PostgreSQL beat has not moved for over `limit` while the observer's own was."""
        return {
            node
            for node, row in self._rows.items()
            if self._pg_until - max(row.since, self._pg_steady_since) > limit
        }

    def _is_lost(self, node: UUID, row: _Row) -> bool:
        enough = self._settings.lease + self._settings.guard
        silent_in_pg = self._pg_until - row.since
        if silent_in_pg >= self._settings.store_outage + self._settings.guard:
            return True
        if not row.value.redis_on:
            return silent_in_pg >= enough
        key = self._keys.get(node)
        if key is None:
            return False
        # One common window: silences that merely overlap leave room for a node that lived by the other store.
        return min(self._pg_until, self._redis_until) - max(row.since, key.since) >= enough
