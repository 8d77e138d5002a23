"""How an agent comes to be a member: no twin, proof that its past is dead, a contract for each handler."""

from __future__ import annotations

import time
from collections.abc import Callable

from mutirao import __version__
from mutirao.agent import proof
from mutirao.agent.beating import Member
from mutirao.agent.fitting import Fitting
from mutirao.agent.identity import NodeIdentity
from mutirao.domain.liveness import MARGIN, LeaseSettings
from mutirao.errors import AlreadyRunning, OutcomeUnknown, Unavailable
from mutirao.logs import get_logger
from mutirao.loop import boottime
from mutirao.settings import Settings
from mutirao.store.nodes import Identity, NodeStore, PublishedContract

log = get_logger(__name__)

# Watching for another live instance of this identity: three of its beats would show.
WATCH = 3.0
RETRY = 1.0


class Registration:
    """The way into the cluster, tried for as long as `wanted` says; PostgreSQL may be away meanwhile."""

    def __init__(
        self,
        settings: Settings,
        identity: NodeIdentity,
        nodes: NodeStore,
        fitting: Fitting,
        *,
        wanted: Callable[[], bool],
    ) -> None:
        self._started = boottime()
        self._identity = identity
        self._nodes = nodes
        self._fitting = fitting
        self._wanted = wanted
        self._me = Identity(identity.id, settings.node_name, settings.web_url, settings.slots, __version__)

    def look(self) -> tuple[LeaseSettings | None, int | None]:
        """The shared settings and the node's last incarnation, once it is safe to begin the next.

        None for the settings when it is not wanted any more. Raises AlreadyRunning when this identity
        lives elsewhere.
        """
        while self._wanted():
            try:
                shared = self._nodes.cluster()
                former = self._nodes.counter(self._identity.id)
                lease = LeaseSettings(shared.lease, shared.guard, shared.store_outage)
                if former is not None:
                    self._rule_out_a_twin(former)
                # Only now: until a twin is ruled out, what carries this identity may be a living agent's.
                if not proof.end_marked(self._identity.id):
                    # What ran here may still run: only time is left as a proof.
                    time.sleep(max(0.0, self._started + lease.lease + lease.guard - boottime()))
                return lease, None if former is None else former[0]
            except Unavailable as error:
                log.warning("waiting_for_postgresql", error=error.message)
                if boottime() - self._started > LeaseSettings().lease - MARGIN:
                    # Others may soon be given what ran here: it must not wait for PostgreSQL to come back.
                    proof.end_marked(self._identity.id)
                time.sleep(RETRY)
        return None, None

    def register(self, former: int | None) -> Member | None:
        """Begins the incarnation after `former`; None when it is not wanted any more.

        Raises Superseded when somebody else has begun it.
        """
        while self._wanted():
            try:
                contracts = self._fitting.contracts()
                since = boottime()
                incarnation, counter, moved = self._nodes.register(self._me, contracts, former)
            except OutcomeUnknown:
                former = self._after_unknown(former)
                continue
            except Unavailable as error:
                log.warning("registration_waits", error=error.message)
                time.sleep(RETRY)
                continue
            self._identity.remember(incarnation)
            log.info("registered", incarnation=incarnation, jobs_moved_on=moved)
            _say_refused(contracts)
            return Member(self._me.node, incarnation, counter, since)
        return None

    def _rule_out_a_twin(self, seen: tuple[int, int]) -> None:
        if self._identity.last_incarnation() == seen[0]:
            return
        until = boottime() + WATCH
        while boottime() < until:
            if self._nodes.counter(self._identity.id) != seen:
                raise AlreadyRunning(
                    f"another live agent beats as node {self._identity.id}",
                    hint="Was this machine cloned? Remove `node-id` from its state directory.",
                )
            time.sleep(0.25)

    def _after_unknown(self, former: int | None) -> int | None:
        """Which incarnation to follow after a registration whose answer was lost."""
        while self._wanted():
            try:
                found = self._nodes.counter(self._identity.id)
                if found is not None and found[0] == (former or 0) + 1:
                    # Ours, if nobody beats under it.
                    self._rule_out_a_twin(found)
                    return found[0]
                return former
            except Unavailable:
                time.sleep(RETRY)
        return former


def _say_refused(contracts: list[PublishedContract]) -> None:
    for contract in contracts:
        if contract.refusal is not None:
            log.warning(
                "contract_refused",
                handler=contract.handler,
                why=contract.refusal,
                hint="Mend the handler, or cancel that job; meanwhile the node does not serve the handler.",
            )
