"""Beats in both stores, the lease that follows from them, and what they show of the other nodes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from mutirao import metrics
from mutirao.coordination.beats import RedisBeats
from mutirao.domain.liveness import (
    LeaseSettings,
    NodeBeat,
    Observer,
    SelfLease,
    StoreReading,
    Verdict,
)
from mutirao.errors import Superseded
from mutirao.logs import get_logger
from mutirao.loop import Loop, boottime
from mutirao.store.nodes import BeatReading, NodeStore

log = get_logger(__name__)

INTERVAL = 1.0
# Whoever judges the others looks twice as often: what it sees is that much fresher.
INTERVAL_IN_OFFICE = 0.5
RETRY = 0.5
# Loss can only strike nodes that may hold jobs.
_WATCHED = frozenset({"live", "draining"})


@dataclass(frozen=True, slots=True)
class Member:
    """One incarnation of this node, as registered: `since` is the start of that transaction (boottime)."""

    node: UUID
    incarnation: int
    counter: int
    since: float

    @property
    def owner(self) -> str:
        """The name its locks carry."""
        return f"{self.node}:{self.incarnation}"


class Beating:
    """Keeps one incarnation alive: two threads, one per store, so that neither waits for the other."""

    def __init__(
        self,
        member: Member,
        nodes: NodeStore,
        redis_beats: RedisBeats,
        settings: LeaseSettings,
        *,
        extend: Callable[[float], None],
        capacity: Callable[[], int],
        in_office: Callable[[], bool],
        on_superseded: Callable[[BaseException], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._member = member
        self._nodes = nodes
        self._redis_beats = redis_beats
        self._extend = extend
        self._capacity = capacity
        self._in_office = in_office
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._lease = SelfLease(settings, member.since)
        self._observer = Observer(settings)
        self._counter = member.counter
        self._redis_counter = 0
        self._peers: Sequence[UUID] = ()
        self._pg_accepted = member.since
        self._redis_accepted = 0.0
        self._postgres = Loop(
            "postgres-beats",
            self._beat_postgres,
            retry=RETRY,
            fatal=(Superseded,),
            on_fatal=on_superseded,
        )
        self._redis = Loop("redis-beats", self._beat_redis)

    def start(self) -> None:
        """Hands the guard the first deadline and begins to beat."""
        self._extend(self._lease.deadline())
        metrics.BEAT_AGE.labels("postgres").set_function(lambda: self._age(self._pg_accepted))
        metrics.BEAT_AGE.labels("redis").set_function(lambda: self._age(self._redis_accepted))
        self._postgres.start()
        self._redis.start()

    def stop(self) -> None:
        """Ends both threads; the lease runs out by itself."""
        self._postgres.stop(15.0)
        self._redis.stop(15.0)

    def hurry(self) -> None:
        """Beats in PostgreSQL at once: the node's capacity has changed a lot."""
        self._postgres.wake()

    def stands(self, limit: float = 3.0) -> bool:
        """True while this node's own PostgreSQL beats are accepted."""
        return boottime() - self._pg_accepted <= limit

    def redis_is_near(self, limit: float = 2.5) -> bool:
        """True while this node's own Redis beats are accepted: worth asking Redis for more."""
        return boottime() - self._redis_accepted <= limit

    def lost(self) -> list[Verdict]:
        """The other nodes that cannot be executing any more."""
        with self._lock:
            return [verdict for verdict in self._observer.lost() if verdict.node != self._member.node]

    def stale(self) -> set[UUID]:
        """The other nodes whose PostgreSQL beat stands still: nothing new for them."""
        with self._lock:
            return self._observer.stale_nodes() - {self._member.node}

    def _age(self, accepted: float) -> float:
        # Where there never was a beat, its silence began with this incarnation.
        return boottime() - max(accepted, self._member.since)

    def _beat_postgres(self) -> float:
        started = boottime()
        with self._lock:
            redis_on = self._lease.sending(started)
            # Sending "off" ends Redis's say before anybody can read it: the deadline must move first.
            self._extend(self._lease.deadline())
            self._counter += 1
            counter = self._counter
        reading = self._nodes.beat(
            self._member.node, self._member.incarnation, counter, redis_on, self._capacity()
        )
        finished = boottime()
        if not reading.moved:
            self._look_again()
            return RETRY
        with self._lock:
            self._lease.pg_accepted(started, redis_on)
            self._observer.pg_read(StoreReading(started, finished, reading.server, _watched(reading)))
            self._extend(self._lease.deadline())
            self._peers = [row.node for row in reading.rows]
            self._pg_accepted = started
        if self.lost():
            self._on_lost()
        return self._pause(started, finished)

    def _look_again(self) -> None:
        """A beat that moved nothing: superseded, or an earlier try of ours came through after all."""
        found = self._nodes.counter(self._member.node)
        if found is None or found[0] != self._member.incarnation:
            raise Superseded(f"incarnation {self._member.incarnation} is over, PostgreSQL has {found}")
        with self._lock:
            self._counter = max(self._counter, found[1])

    def _beat_redis(self) -> float:
        self._redis_counter += 1
        reading = self._redis_beats.beat(self._member.incarnation, self._redis_counter, self._peers)
        with self._lock:
            self._observer.redis_read(reading)
            if reading.accepted:
                self._lease.redis_accepted(reading.started)
                self._redis_accepted = reading.started
                self._extend(self._lease.deadline())
        if not reading.accepted:
            return RETRY  # one beat missed would already be a gap that restarts everyone's window
        return self._pause(reading.started, reading.finished)

    def _pause(self, started: float, finished: float) -> float:
        interval = INTERVAL_IN_OFFICE if self._in_office() else INTERVAL
        return max(0.05, interval - (finished - started))


def _watched(reading: BeatReading) -> Mapping[UUID, NodeBeat]:
    return {
        row.node: NodeBeat(row.incarnation, row.counter, row.redis_on)
        for row in reading.rows
        if row.status in _WATCHED
    }
