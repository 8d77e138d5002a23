"""The rules of the beats, one by one: what each is called, who breaks it, and which faults then deceive."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from mutirao.domain import liveness
from mutirao.domain.liveness import LeaseSettings, Observer, RedisReading, SelfLease, Verdict

SETTINGS = LeaseSettings(lease=10.0, guard=2.0, store_outage=60.0)

# Lasting faults; a `late` beat is given up by the node and comes through long after.
WINDOWS = (
    "redis cut from node", "redis cut from observer", "redis answers observer without a majority",
    "redis answers to node lost", "postgres cut from node", "postgres cut from observer",
    "postgres answers to node lost", "postgres beats of node late", "node paused", "observer paused",
)  # fmt: skip
# Faults of one instant; `duration` is how old the data are that a new Redis primary has.
INSTANTS = ("redis emptied", "redis failed over", "postgres failed over")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with one of the parts from `start` on, for `duration` seconds."""

    kind: str
    start: float
    duration: float = 0.0


def _every_quarter(kind: str, *, growing: bool = False) -> list[Fault]:
    times = [20.5 + 0.25 * step for step in range(80)]
    return [Fault(kind, at, at - 20 if growing else 0.0) for at in times]


# Each rule of the beats with a schedule that deceives the observer where the rule is left out.
RULES: dict[str, list[Fault]] = {
    "silence ends at the start of the last accepted read": [Fault("observer paused", 30, 14)],
    "only accepted reads count": [
        Fault("redis answers observer without a majority", 30, 40),
        Fault("postgres cut from node", 30, 40),
    ],
    "another run id restarts the window": [
        Fault("postgres cut from node", 20, 40),
        *_every_quarter("redis failed over", growing=True),
    ],
    "a missing key restarts the window": [
        Fault("postgres cut from node", 20, 40),
        *_every_quarter("redis emptied"),
    ],
    "both stores are silent in one common window": [
        Fault("redis cut from node", 20, 14.2),
        Fault("redis cut from observer", 34, 60),
        Fault("postgres cut from node", 37.5, 60),
    ],
    "redis does not count from sending off": [
        Fault("redis cut from node", 20, 11.5),
        Fault("postgres answers to node lost", 29.9, 1.4),
        Fault("postgres cut from node", 31.3, 60),
    ],
    "redis counts only after on is acknowledged": [
        Fault("redis cut from node", 20, 12.5),
        Fault("postgres cut from node", 31.7, 60),
    ],
    "postgres counters only grow": [
        Fault("redis cut from node", 20, 11.5),
        Fault("postgres beats of node late", 29.9, 1.7),
        Fault("postgres cut from node", 37, 2.5),
        Fault("postgres cut from node", 39.7, 60),
    ],
    "the deadline runs from the start of a beat": [
        Fault("node paused", 20, 8),
        Fault("redis cut from node", 20.3, 60),
        Fault("postgres cut from node", 20.3, 60),
    ],
    "redis alone carries a lease for store_outage only": [Fault("postgres cut from node", 20, 80)],
}


class UntilNow(Observer):
    """Measures to the present, which whoever asks must tell it."""

    now = 0.0

    def lost(self) -> list[Verdict]:
        if self._rows:
            self._pg_until = self.now
            self._redis_until = self.now
        return super().lost()


class _AnyServer(Observer):
    def redis_read(self, reading: RedisReading) -> None:
        same = RedisReading(reading.started, reading.finished, reading.accepted, "same", reading.counters)
        super().redis_read(same)


class _MissingIsSilent(Observer):
    def redis_read(self, reading: RedisReading) -> None:
        before = self._keys
        super().redis_read(reading)
        self._keys = {**before, **self._keys}


class _TwoWindows(Observer):
    def _is_lost(self, node: UUID, row: liveness._Row) -> bool:
        enough = SETTINGS.lease + SETTINGS.guard
        key = self._keys.get(node)
        return (
            self._pg_until - row.since >= enough
            and key is not None
            and self._redis_until - key.since >= enough
        )


class _CountsUntilOffIsAcknowledged(SelfLease):
    def sending(self, now: float) -> bool:
        counted = self._switch._counts
        flag = super().sending(now)
        self._switch._counts = counted
        return flag


class _CountsOnceOnIsSent(SelfLease):
    def sending(self, now: float) -> bool:
        flag = super().sending(now)
        self._switch._counts = flag
        return flag


def observer_without(rule: str) -> type[Observer]:
    """The observer's class, deaf to one rule."""
    return {
        "silence ends at the start of the last accepted read": UntilNow,
        "another run id restarts the window": _AnyServer,
        "a missing key restarts the window": _MissingIsSilent,
        "both stores are silent in one common window": _TwoWindows,
    }.get(rule, Observer)


class _OnRedisForEver(SelfLease):
    def deadline(self) -> float:
        settings = LeaseSettings(SETTINGS.lease, SETTINGS.guard, store_outage=1e9)
        return liveness.deadline(self._pg, self._redis if self._switch.counts else None, settings)


def lease_without(rule: str) -> type[SelfLease]:
    """The lease's class, deaf to one rule."""
    return {
        "redis does not count from sending off": _CountsUntilOffIsAcknowledged,
        "redis counts only after on is acknowledged": _CountsOnceOnIsSent,
        "redis alone carries a lease for store_outage only": _OnRedisForEver,
    }.get(rule, SelfLease)
