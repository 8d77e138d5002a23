"""A simulated node and its observer between two stores that fail in every way the beats must bear.

The node executes until its guard's deadline. `World.run` tells whether the observer declared it lost while it
still might execute, which must never happen; each of RULES can be left out to see that it then does.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from mutirao.domain.liveness import NodeBeat, RedisReading, StoreReading
from tests.support.liveness_rules import (
    INSTANTS,
    RULES,
    SETTINGS,
    Fault,
    UntilNow,
    lease_without,
    observer_without,
)

NODE = UUID(int=1)
# The two machines booted at different times: nobody may compare their clocks.
CLOCK_OFFSET = 5000.0
TIMEOUT = 1.0
# How long after its window a given-up PostgreSQL beat still comes through.
LATE = 8.0


@dataclass(slots=True)
class Stores:
    """What both servers hold, and how it came about."""

    run: int = 0
    keys: dict[UUID, str] = field(default_factory=dict)
    history: list[tuple[float, dict[UUID, str]]] = field(default_factory=list)
    server: int = 0
    row: NodeBeat = field(default_factory=lambda: NodeBeat(1, 0, True))

    def keep(self, now: float) -> None:
        self.history.append((now, dict(self.keys)))

    def fail_over(self, now: float, age: float) -> None:
        self.run += 1
        older = [keys for at, keys in self.history if at <= now - age]
        self.keys = dict(older[-1]) if older else {}
        self.keep(now)


class World:
    """One run of simulated time over a schedule of faults; the same arguments give the same run."""

    def __init__(
        self, faults: Iterable[Fault], seed: int, *, without: str = "", horizon: float = 100.0
    ) -> None:
        self._faults = list(faults)
        self._random = random.Random(seed)
        self._without = without
        self._horizon = horizon
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = itertools.count()
        self.stores = Stores()
        self.lease = lease_without(without)(SETTINGS, 0.0)
        self.observer = observer_without(without)(SETTINGS)
        self.guard_deadline = self.lease.deadline()
        self.fenced = False
        self.declared: float | None = None
        self.wrong = False
        self._pg_counter = 0
        self._redis_counter = itertools.count(1)

    def run(self) -> bool:
        """True if a node that might still execute was declared lost."""
        for fault in self._faults:
            if fault.kind in INSTANTS:
                self._at(fault.start, partial(self._strike, fault))
        for beat in (self._node_redis, self._node_postgres, self._observer_redis, self._observer_postgres):
            self._at(self._random.random(), beat)
        while self._events and self.declared is None:
            now, _, act = heapq.heappop(self._events)
            if now > self._horizon:
                break
            act(now)
        return self.wrong

    def executing(self, now: float) -> bool:
        """True while the guard has not killed the runners."""
        self.fenced = self.fenced or now >= self.guard_deadline
        return not self.fenced

    # The node

    def _extend(self, now: float) -> None:
        if self.executing(now):
            self.guard_deadline = self.lease.deadline()

    def _node_redis(self, now: float) -> None:
        value = f"1:{next(self._redis_counter)}"
        sent, answered = self._travel(now, "node paused")

        def arrive(at: float) -> None:
            if self._is("redis cut from node", at):
                return
            self.stores.keys[NODE] = value
            self.stores.keep(at)
            if not self._is("redis answers to node lost", at):
                self._at(answered, accepted)

        def accepted(at: float) -> None:
            self.lease.redis_accepted(now if self._rule("the deadline runs from the start of a beat") else at)
            self._extend(at)

        self._at(sent, arrive)
        self._again(self._node_redis, now, answered, "node paused")

    def _node_postgres(self, now: float) -> None:
        flag = self.lease.sending(now)
        self._extend(now)
        self._pg_counter += 1
        row = NodeBeat(1, self._pg_counter, flag)
        sent, answered = self._travel(now, "node paused")

        def arrive(at: float) -> None:
            if self._is("postgres cut from node", at):
                return
            grows = row.counter > self.stores.row.counter
            if grows or not self._rule("postgres counters only grow"):
                self.stores.row = row
                lost = late or self._is("postgres answers to node lost", at)
                if not lost:
                    self._at(answered, accepted)

        def accepted(at: float) -> None:
            exact = self._rule("the deadline runs from the start of a beat")
            self.lease.pg_accepted(now if exact else at, flag)
            self._extend(at)

        late = self._is("postgres beats of node late", sent)
        self._at(self._end_of("postgres beats of node late", sent) + LATE if late else sent, arrive)
        self._again(self._node_postgres, now, answered, "node paused")

    # The observer

    def _observer_redis(self, now: float) -> None:
        sent, answered = self._travel(now, "observer paused")

        def arrive(at: float) -> None:
            if self._is("redis cut from observer", at):
                return
            accepted = not self._is("redis answers observer without a majority", at)
            keys = dict(self.stores.keys) if accepted else self._old_keys(at)
            run = str(self.stores.run)
            self._at(answered, lambda then: self._read_redis(now, then, accepted, run, keys))

        self._at(sent, arrive)
        self._again(self._observer_redis, now, answered, "observer paused")

    def _old_keys(self, now: float) -> dict[UUID, str]:
        """What a server that was cut off with the observer still shows."""
        start = max(f.start for f in self._faults if f.kind.endswith("majority") and f.start <= now)
        return next((dict(keys) for at, keys in reversed(self.stores.history) if at <= start), {})

    def _read_redis(
        self, started: float, now: float, accepted: bool, run: str, keys: dict[UUID, str]
    ) -> None:
        accepted = accepted or not self._rule("only accepted reads count")
        self.observer.redis_read(
            RedisReading(
                started + CLOCK_OFFSET, now + CLOCK_OFFSET, accepted, run, keys if accepted else None
            )
        )

    def _observer_postgres(self, now: float) -> None:
        sent, answered = self._travel(now, "observer paused")

        def arrive(at: float) -> None:
            if not self._is("postgres cut from observer", at):
                server, row = str(self.stores.server), self.stores.row
                self._at(answered, lambda then: self._read_postgres(now, then, server, row))

        self._at(sent, arrive)
        self._again(self._observer_postgres, now, answered, "observer paused")

    def _read_postgres(self, started: float, now: float, server: str, row: NodeBeat) -> None:
        self.observer.pg_read(StoreReading(started + CLOCK_OFFSET, now + CLOCK_OFFSET, server, {NODE: row}))
        self._judge(now)
        # The coordinator looks again on its own, between readings too.
        self._at(self._unpaused(now + 0.5, "observer paused"), self._judge)

    def _judge(self, now: float) -> None:
        if isinstance(self.observer, UntilNow):
            self.observer.now = now + CLOCK_OFFSET
        for _ in self.observer.lost():
            later = self._unpaused(now + self._random.choice([0.0, 0.1, 1.5]), "observer paused")
            self._at(later, self._declare)

    def _declare(self, now: float) -> None:
        """A verdict is final for the incarnation it judged, however late it is carried out."""
        self.declared = now
        self.wrong = self.executing(now)

    # Time and faults

    def _strike(self, fault: Fault, now: float) -> None:
        if fault.kind == "redis emptied":
            self.stores.keys = {}
            self.stores.keep(now)
        elif fault.kind == "redis failed over":
            self.stores.fail_over(now, fault.duration)
        else:
            self.stores.server += 1

    def _at(self, when: float, act: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), act))

    def _again(self, beat: Callable[[float], None], started: float, answered: float, pause: str) -> None:
        self._at(self._unpaused(max(started + 1.0, answered), pause), beat)

    def _travel(self, now: float, pause: str) -> tuple[float, float]:
        """When a request sent now arrives, and when its answer is taken in; pauses may fall in between."""
        sent = self._unpaused(now + self._random.choice([0.0, 0.01]), pause)
        there = self._random.choice([0.001, 0.01, TIMEOUT / 2]) * self._random.random()
        back = self._random.choice([0.001, 0.01, TIMEOUT / 2]) * self._random.random()
        return sent + there, self._unpaused(sent + there + back, pause)

    def _unpaused(self, when: float, pause: str) -> float:
        return self._end_of(pause, when)

    def _end_of(self, kind: str, when: float) -> float:
        while ends := [f.start + f.duration for f in self._faults if f.kind == kind and _covers(f, when)]:
            when = max(ends)
        return when

    def _is(self, kind: str, when: float) -> bool:
        return any(fault.kind == kind and _covers(fault, when) for fault in self._faults)

    def _rule(self, name: str) -> bool:
        assert name in RULES
        return name != self._without


def _covers(fault: Fault, when: float) -> bool:
    return fault.start <= when < fault.start + fault.duration


def ran(faults: Sequence[Fault], seed: int, without: str = "") -> World:
    """A finished run."""
    world = World(faults, seed, without=without)
    world.run()
    return world
