"""The coordinator's work, done only in office: due jobs, assignment, lost nodes, sweep, housekeeping."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from mutirao import metrics
from mutirao.agent.beating import Beating
from mutirao.agent.elector import Elector
from mutirao.domain.placement import Outlook, plan
from mutirao.errors import Fenced, Unavailable
from mutirao.logs import get_logger
from mutirao.loop import Loop, Timetable, boottime
from mutirao.store.assignment import AssignmentStore
from mutirao.store.database import Database, TermHeld
from mutirao.store.jobs import Jobs

log = get_logger(__name__)

# Jobs given in one round, and looked at of each contract; more would only make one transaction longer.
ROUND = 2000
GLANCE = 64
POLL = 0.5
# What a round has left over waits for the nodes to say more of what they can take.
NEXT_ROUND = 0.01
# How often to look when no wake-up can be expected.
POLL_WITHOUT_REDIS = 0.1
WATCH_EVERY = 0.2
SWEEP_EVERY = 3.0
UNSERVED_EVERY = 2.0
COUNT_EVERY = 2.0
# Counting a long queue takes a while: never spend more than a twentieth of the time on it, within reason.
COUNT_SHARE, COUNT_AT_LEAST_EVERY = 20.0, 60.0
PARTITIONS_EVERY = 3600.0
KEYS_EVERY = 60.0
# How long a repeated idempotency key finds its job again.
KEYS_KEPT = 7 * 86400.0


class Coordinator:
    """One loop that does nothing out of office; whatever it writes is fenced by its term."""

    def __init__(
        self,
        database: Database,
        elector: Elector,
        beating: Beating,
        *,
        announce: Callable[[Iterable[UUID]], None],
        hears: Callable[[], bool],
    ) -> None:
        self._database = database
        self._jobs = Jobs(database)
        self._elector = elector
        self._beating = beating
        self._announce = announce
        self._hears = hears
        self._store: AssignmentStore | None = None
        self._office: TermHeld | None = None
        self._timetable = Timetable()
        self._due_at = 0.0
        self._outlook = Outlook(GLANCE, ROUND)
        self._loop = Loop("coordinator", self._run_once, retry=0.5)
        # Apart: nobody's start may wait for a count.
        self._counting = Loop("counting", self._count)

    def start(self) -> None:
        """Begins; wakes up when an office is taken."""
        self._loop.start()
        self._counting.start()

    def stop(self) -> None:
        """Ends the loop after the round it is in."""
        self._loop.stop(15.0)
        self._counting.stop(15.0)

    def wake(self) -> None:
        """There may be something to plan."""
        self._loop.wake()

    def _run_once(self) -> float:
        office = self._elector.office
        if office is None:
            self._store = None
            return 5.0
        if self._store is None or office != self._office:
            self._store, self._office = AssignmentStore(self._database, office), office
            self._timetable, self._due_at = Timetable(), 0.0
            self._counting.wake()
        try:
            return self._work(self._store)
        except Fenced as error:
            self._elector.leave(office, error.message)
            return 0.0

    def _work(self, store: AssignmentStore) -> float:
        self._promote(store)
        delay = self._assign(store)
        self._maintain(store)
        return delay

    def _maintain(self, store: AssignmentStore) -> None:
        if self._timetable.due("sweep", SWEEP_EVERY):
            self._tell("swept", store.sweep())
        if self._timetable.due("watch", WATCH_EVERY):
            self._watch(store)
        if self._timetable.due("unserved", UNSERVED_EVERY):
            store.note_unserved()
        if self._timetable.due("partitions", PARTITIONS_EVERY):
            store.ensure_partitions()
        if self._timetable.due("keys", KEYS_EVERY):
            self._jobs.forget_keys(KEYS_KEPT)

    def _watch(self, store: AssignmentStore) -> None:
        for verdict in self._beating.lost():
            moved = store.declare_lost(verdict.node, verdict.incarnation, verdict.counter, verdict.redis_on)
            if moved is not None:
                metrics.NODES_LOST.inc()
                log.warning("node_declared_lost", node=str(verdict.node), jobs_moved=moved)
        stale = self._beating.stale()
        if stale:
            self._tell("taken_back", store.take_back(sorted(stale)))

    def _count(self) -> float:
        store, started = self._store, boottime()
        if store is None:
            return 5.0
        try:
            store.count_states()
        except Unavailable as error:
            log.warning("jobs_not_counted", error=error.message)
        return min(max(COUNT_EVERY, COUNT_SHARE * (boottime() - started)), COUNT_AT_LEAST_EVERY)

    def _promote(self, store: AssignmentStore) -> None:
        if boottime() < self._due_at:
            return
        while store.promote_due(ROUND) == ROUND:
            pass
        seconds = store.next_due()
        # Somebody may schedule an earlier one meanwhile: never look later than the poll says.
        self._due_at = boottime() + min(POLL, max(0.0, POLL if seconds is None else seconds))

    def _assign(self, store: AssignmentStore) -> float:
        survey = store.survey(self._outlook.size, self._beating.stale())
        planned = plan(survey.candidates, survey.rooms)[:ROUND]
        given = store.assign(planned) if planned else {}
        if given:
            metrics.JOBS_ASSIGNED.inc(sum(given.values()))
            self._announce(given)
        room_left = sum(room.free for room in survey.rooms) > len(planned)
        again = self._outlook.learn(survey.longest, len(survey.candidates), len(planned), room_left)
        if again or sum(given.values()) < len(planned):
            return 0.0
        if planned and len(planned) < len(survey.candidates):
            return NEXT_ROUND
        poll = POLL if self._hears() else POLL_WITHOUT_REDIS
        return max(0.0, min(poll, self._due_at - boottime()))

    def _tell(self, event: str, jobs: int) -> None:
        if jobs:
            log.info(event, jobs=jobs)
