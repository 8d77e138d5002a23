"""Everything that lives and ends with one incarnation of a node, wired together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from mutirao.agent.adoption import Adopting
from mutirao.agent.beating import Beating, Member
from mutirao.agent.claims import Claims
from mutirao.agent.coordinator import Coordinator
from mutirao.agent.elector import Elector
from mutirao.agent.fitting import Fitting
from mutirao.agent.locking import Locking
from mutirao.agent.notes import Notes
from mutirao.agent.runners import Runners
from mutirao.agent.worker import Worker
from mutirao.agent.workload import Workload
from mutirao.coordination.beats import RedisBeats
from mutirao.coordination.connection import Redis, connect
from mutirao.coordination.election import LeaderKey
from mutirao.coordination.keys import Keys
from mutirao.coordination.locks import ExecutionLocks
from mutirao.coordination.wakeup import Subscription, Wakeups
from mutirao.domain.job import Outcome
from mutirao.domain.liveness import LeaseSettings
from mutirao.settings import Settings
from mutirao.store.contracts import ContractStore
from mutirao.store.database import Database
from mutirao.store.execution import ExecutionStore
from mutirao.store.nodes import NodeStore
from mutirao.store.once import OnceStore
from mutirao.store.term import TermStore


@dataclass(frozen=True, slots=True)
class Endings:
    """What to call when the incarnation cannot go on."""

    superseded: Callable[[BaseException], None]
    fenced: Callable[[], None]
    guard_died: Callable[[], None]


class Incarnation:
    """One registered life of the node, from its first beat to its last acknowledgement."""

    def __init__(
        self,
        member: Member,
        settings: Settings,
        lease: LeaseSettings,
        database: Database,
        runners: Runners,
        fitting: Fitting,
        endings: Endings,
    ) -> None:
        self._member = member
        self._settings = settings
        self._runners = runners
        self._nodes = NodeStore(database)
        self._draining = False
        self._told = settings.slots
        url = settings.redis.get_secret_value()
        redis = connect(url)
        self._keys = Keys(settings.redis_prefix)
        self._wakeups = Wakeups(redis, self._keys)
        self._workload = Workload(settings.slots)
        self._beating = self._make_beating(connect(url), lease, endings)
        self._elector = Elector(
            member,
            LeaderKey(connect(url), self._keys),
            TermStore(database),
            eligible=lambda: not self._draining and self._beating.stands(),
            on_change=self._wake_coordinator,
        )
        self._subscription = Subscription(url, self._channels())
        self._coordinator = Coordinator(
            database,
            self._elector,
            self._beating,
            announce=self._announce,
            hears=lambda: self._subscription.connected,
        )
        self._worker = Worker(
            runners, self._workload, on_fenced=endings.fenced, on_guard_died=endings.guard_died
        )
        self._claims = self._make_claims(redis, lease, database)
        self._notes = Notes(runners, OnceStore(database, member.node, member.incarnation))
        self._adopting = Adopting(
            member, ContractStore(database, member.node), fitting, on_change=self._tell_coordinator
        )

    def _make_beating(self, redis: Redis, lease: LeaseSettings, endings: Endings) -> Beating:
        return Beating(
            self._member,
            self._nodes,
            RedisBeats(redis, self._member.node, self._settings.redis_replicas, keys=self._keys),
            lease,
            extend=self._runners.extend,
            capacity=self._capacity,
            in_office=lambda: self._elector.office is not None,
            on_superseded=endings.superseded,
            on_lost=self._wake_coordinator,
        )

    def _make_claims(self, redis: Redis, lease: LeaseSettings, database: Database) -> Claims:
        locking = Locking(
            ExecutionLocks(redis, lease.lease + lease.guard, self._keys),
            self._member.owner,
            near=self._beating.redis_is_near,
            kill=self._worker.kill,
        )
        return Claims(
            ExecutionStore(database, self._member.node, self._member.incarnation),
            locking,
            self._workload,
            hand_over=self._worker.hand_over,
            kill=self._worker.kill,
            on_room=self._room,
            hears=lambda: self._subscription.connected,
            may_start=lambda: self._runners.able and not self._runners.fenced and self._beating.stands(),
            holding=self._worker.holding,
        )

    def _channels(self) -> dict[str, Callable[[str], None]]:
        return {
            self._keys.coordinator_channel: lambda _: self._coordinator.wake(),
            self._keys.node_channel(self._member.node): lambda _: self._claims.wake(),
            self._keys.cancel_channel: lambda _: self._claims.look_for_cancels(),
        }

    def start(self) -> None:
        """Begins to beat, then to work, then to stand for coordinator."""
        self._beating.start()
        self._worker.start(self._claims)
        self._claims.start()
        self._notes.start()
        self._coordinator.start()
        self._subscription.start()
        self._elector.start()
        self._adopting.start()

    def stop(self) -> None:
        """Ends every thread of this life; what they were writing is bound to its incarnation."""
        self._adopting.stop()
        self._elector.stop()
        self._coordinator.stop()
        self._subscription.stop()
        self._worker.stop()
        self._notes.stop()
        self._claims.stop()
        self._beating.stop()

    def drain(self, until: float) -> None:
        """Takes nothing new, lets attempts end until `until` (monotonic), then interrupts the rest."""
        self._draining = True
        self._adopting.stop(0.0)
        self._elector.stop()
        self._nodes.drain(self._member.node, self._member.incarnation)
        self._claims.drain()
        if not self._wait_empty(until):
            self._worker.return_unstarted()
            self._worker.kill_all(Outcome.INTERRUPTED)
            self._wait_empty(time.monotonic() + 5.0)

    def _wait_empty(self, until: float) -> bool:
        while self._claims.count:
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True

    def _capacity(self) -> int:
        if self._draining or not self._runners.able:
            return 0
        return self._workload.capacity(self._claims.count)

    def _announce(self, nodes: Iterable[UUID]) -> None:
        given = set(nodes)
        if self._member.node in given:
            self._claims.wake()
        self._wakeups.publish_nodes(given - {self._member.node})

    def _wake_coordinator(self) -> None:
        self._coordinator.wake()

    def _room(self) -> None:
        capacity = self._capacity()
        if not self._told / 2 < capacity < self._told * 2:
            self._told = capacity
            self._beating.hurry()
        self._tell_coordinator()

    def _tell_coordinator(self) -> None:
        if self._elector.office is not None:
            self._coordinator.wake()
        else:
            self._wakeups.publish_coordinator()
