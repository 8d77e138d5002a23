"""Standing for coordinator, staying in office and leaving it (DESIGN §5 Election)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from mutirao import metrics
from mutirao.agent.beating import Member
from mutirao.coordination.election import LeaderKey, Renewal
from mutirao.errors import CoordinationUnavailable, Fenced, StoreUnavailable
from mutirao.logs import get_logger
from mutirao.loop import Loop, boottime
from mutirao.store.database import TermHeld
from mutirao.store.term import TermRow, TermStore

log = get_logger(__name__)

POLL = 0.25
RENEW = 1.0
# Cut off from PostgreSQL for this long, a coordinator makes room for others.
TERM_BEAT_LIMIT = 5.0
# With the term's beat unmoved for this long the term is free, whatever Redis says.
TERM_SILENCE = 15.0


@dataclass(frozen=True, slots=True)
class _Sighting:
    """The term row as first seen in this state, and up to when it is known to have stayed so."""

    row: TermRow
    since: float
    until: float


class Elector:
    """Holds `office` while this incarnation is the coordinator; the fence, not this, makes it safe."""

    def __init__(
        self,
        member: Member,
        key: LeaderKey,
        terms: TermStore,
        *,
        eligible: Callable[[], bool],
        on_change: Callable[[], None],
    ) -> None:
        self._member = member
        self._key = key
        self._terms = terms
        self._eligible = eligible
        self._on_change = on_change
        self._lock = threading.Lock()
        self._office: TermHeld | None = None
        self._beaten = 0.0
        self._seen: _Sighting | None = None
        self._resigned = False
        self._standing = Loop("elector", self._stand, retry=POLL)
        self._beats = Loop("term-beats", self._beat, retry=0.5)

    @property
    def office(self) -> TermHeld | None:
        """The term held, None when somebody else leads."""
        return self._office

    def start(self) -> None:
        """Begins to stand."""
        self._beats.start()
        self._standing.start()

    def stop(self) -> None:
        """Leaves office, and stands no more."""
        self._resigned = True
        self._standing.stop(10.0)
        self._beats.stop(10.0)
        self.leave(self._office, "stopping")

    def leave(self, office: TermHeld | None, why: str) -> None:
        """Ends the office, if it still is this one, and frees the key for others."""
        with self._lock:
            if office is None or self._office != office:
                return
            self._office = None
        metrics.IN_OFFICE.set(0)
        metrics.LEADERSHIP_CHANGES.labels("worker").inc()
        log.info("office_left", term=office.term, why=why)
        self._release(office.holder)
        self._on_change()

    def _release(self, holder: str) -> None:
        try:
            self._key.release(holder)
        except CoordinationUnavailable as error:
            log.debug("leader_key_not_released", error=error.message)

    def _stand(self) -> float:
        office = self._office
        if office is not None:
            return self._stay(office)
        if self._resigned or not self._eligible():
            self._seen = None
            return POLL
        if self._key_is_free():
            self._candidate()
        elif self._term_is_silent():
            self._candidate(without_redis=True)
        return 0.0 if self._office is not None else POLL

    def _stay(self, office: TermHeld) -> float:
        if boottime() - self._beaten > TERM_BEAT_LIMIT:
            self.leave(office, "the term's beat does not commit")
            return POLL
        try:
            renewal = self._key.renew(office.holder)
            if renewal is Renewal.MISSING and not self._key.take(office.holder):
                renewal = Renewal.FOREIGN
            if renewal is Renewal.FOREIGN:
                self.leave(office, "another node holds the leader key")
        except CoordinationUnavailable as error:
            log.debug("leader_key_not_renewed", error=error.message)
        return RENEW

    def _key_is_free(self) -> bool:
        """True when the key is gone, or still names a former incarnation of this very node."""
        try:
            holder = self._key.holder()
            if holder is not None and holder.startswith(f"{self._member.node}:"):
                # This node's former self is proven dead, or this incarnation would not be registered.
                self._key.release(holder)
                return True
            return holder is None
        except CoordinationUnavailable:
            return False

    def _term_is_silent(self) -> bool:
        now = boottime()
        seen = self._seen
        if seen is not None and now - seen.until < RENEW:
            return False
        row = self._terms.read()
        if seen is None or seen.row != row:
            self._seen = _Sighting(row, boottime(), now)
        else:
            self._seen = _Sighting(row, seen.since, now)
        metrics.TERM.set(row.term)
        return self._seen.until - self._seen.since >= TERM_SILENCE

    def _candidate(self, *, without_redis: bool = False) -> None:
        started = boottime()
        holder = f"{self._member.owner}:{uuid4().hex[:8]}"
        seen = self._seen.row if without_redis and self._seen else self._terms.read()
        if not without_redis and not self._key.take(holder):
            return
        try:
            office = self._terms.take(seen, holder, self._member.node, if_unmoved=without_redis)
        except StoreUnavailable:
            self._release(holder)
            raise
        if office is None:
            self._release(holder)
            return
        with self._lock:
            self._beaten = started
            self._office = office
        self._seen = None
        metrics.TERM.set(office.term)
        metrics.IN_OFFICE.set(1)
        metrics.LEADERSHIP_CHANGES.labels("coordinator").inc()
        log.info("office_taken", term=office.term, without_redis=without_redis)
        self._beats.wake()
        self._on_change()

    def _beat(self) -> float:
        office = self._office
        if office is None:
            return 10.0
        started = boottime()
        try:
            self._terms.beat(office, started - self._beaten)
        except Fenced as error:
            self.leave(office, error.message)
            return 0.0
        self._beaten = max(self._beaten, started)
        return RENEW
