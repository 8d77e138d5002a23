"""The agent's life: registration, incarnations one after another, drain."""

from __future__ import annotations

import queue
import signal
import time
from enum import Enum
from types import FrameType

from mutirao import metrics
from mutirao.agent import proof
from mutirao.agent.beating import Member
from mutirao.agent.exposition import expose
from mutirao.agent.fitting import Fitting
from mutirao.agent.identity import NodeIdentity
from mutirao.agent.incarnation import Endings, Incarnation
from mutirao.agent.judge import Judge
from mutirao.agent.publication import published
from mutirao.agent.registration import Registration
from mutirao.agent.runners import Runners
from mutirao.domain.liveness import LeaseSettings
from mutirao.errors import Superseded, Unavailable
from mutirao.logs import get_logger
from mutirao.loop import boottime
from mutirao.registry import HandlerConfig, load_registry
from mutirao.settings import Settings
from mutirao.store.contracts import ContractStore
from mutirao.store.database import Database
from mutirao.store.nodes import NodeStore

log = get_logger(__name__)

CONNECTIONS = 8


class Ending(Enum):
    """Why an incarnation is over, with the exit status of those that end the process."""

    DRAINED = 0
    SUPERSEDED = 3
    GUARD_DIED = 4
    FENCED = -1


class Agent:
    """One node's agent; `run` returns the process's exit status."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._endings: queue.SimpleQueue[Ending] = queue.SimpleQueue()
        self._database = Database(
            settings.postgres.get_secret_value(),
            application_name=f"mutirao {settings.node_name}",
            size=CONNECTIONS,
            steady_plans=True,
        )
        self._nodes = NodeStore(self._database)
        self._identity = NodeIdentity(settings.state_dir, settings.runtime_dir)
        config = HandlerConfig.of(settings).sealed()
        contracts = load_registry(config).contracts()
        self._fitting = Fitting(
            Judge(config, settings.runtime_dir),
            ContractStore(self._database, self._identity.id),
            published(contracts),
        )
        self._registration = Registration(
            settings, self._identity, self._nodes, self._fitting, wanted=lambda: not self._stopping
        )
        graces = {contract.handler: float(contract.defaults["cancel_grace"]) for contract in contracts}
        self._runners = Runners(self._identity.id, settings.slots, config, settings.runtime_dir, graces)

    def run(self) -> int:
        """Serves until told to stop (SIGTERM, SIGINT) or until it must not go on.

        Raises AlreadyRunning when this identity lives elsewhere, SettingsError for unusable directories.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked_to_stop)
        expose(self._settings)
        metrics.SLOTS.set(self._settings.slots)
        lease, former = self._registration.look()
        if lease is None:
            return Ending.DRAINED.value
        self._runners.start()
        try:
            return self._live(lease, former).value
        finally:
            self._runners.close()
            self._database.close()
            self._identity.close()

    def _live(self, lease: LeaseSettings, former: int | None) -> Ending:
        while True:
            try:
                member = self._registration.register(former)
            except Superseded as error:
                log.error("superseded", error=error.message)
                return Ending.SUPERSEDED
            if member is None:
                return Ending.DRAINED
            ending = self._serve(member, lease)
            if ending is not Ending.FENCED:
                return ending
            metrics.SELF_FENCES.inc()
            log.warning("self_fenced", incarnation=member.incarnation)
            self._runners.rearm(boottime() + lease.lease - 1.0)
            former = member.incarnation

    def _serve(self, member: Member, lease: LeaseSettings) -> Ending:
        incarnation = Incarnation(
            member,
            self._settings,
            lease,
            self._database,
            self._runners,
            self._fitting,
            Endings(
                superseded=lambda error: self._end(Ending.SUPERSEDED, str(error)),
                fenced=lambda: self._end(Ending.FENCED, "the lease ran out"),
                guard_died=lambda: self._end(Ending.GUARD_DIED, "the guard died"),
            ),
        )
        self._forget_endings()
        incarnation.start()
        log.info("serving", node=str(member.node), incarnation=member.incarnation)
        ending = self._endings.get()
        if ending is Ending.DRAINED:
            self._drain(member, incarnation)
        elif ending is not Ending.FENCED:
            # No grace: somebody else may be given these jobs any moment.
            self._runners.fence()
        incarnation.stop()
        if ending is Ending.GUARD_DIED:
            proof.end_marked(member.node)
        return ending

    def _drain(self, member: Member, incarnation: Incarnation) -> None:
        log.info("draining", seconds=self._settings.drain_timeout)
        try:
            incarnation.drain(time.monotonic() + self._settings.drain_timeout)
            incarnation.stop()
            self._runners.close()
            self._identity.remember(self._nodes.leave(member.node, member.incarnation))
        except Unavailable as error:
            log.warning("drained_without_the_store", error=error.message)

    def _end(self, ending: Ending, why: str) -> None:
        log.warning("incarnation_ends", why=why)
        self._endings.put(ending)

    def _forget_endings(self) -> None:
        while not self._endings.empty():
            ending = self._endings.get()
            if ending is Ending.DRAINED:
                self._endings.put(ending)
                return

    _stopping = False

    def _asked_to_stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._stopping = True
        self._endings.put(Ending.DRAINED)
