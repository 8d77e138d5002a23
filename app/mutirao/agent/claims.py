"""A node's dealings with PostgreSQL about its jobs: claims, acknowledgements, corrections; one thread.

Only this thread claims and acknowledges, so between two of its steps it knows exactly what it holds.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID, uuid4

from mutirao import metrics
from mutirao.agent.ends import Ends
from mutirao.agent.locking import Locking
from mutirao.agent.tally import Tally
from mutirao.agent.workload import Workload
from mutirao.domain.job import Outcome
from mutirao.errors import MutiraoError, OutcomeUnknown
from mutirao.logs import get_logger
from mutirao.loop import Loop, Timetable
from mutirao.store.execution import Ack, Acknowledged, Attempt, Claim, ExecutionStore

log = get_logger(__name__)

BATCH = 1000
POLL = 0.5
# How often to look when no wake-up can be expected.
POLL_WITHOUT_REDIS = 0.1
CORRECT_EVERY = 3.0
LOOK_EVERY = 1.0
ROLL_UP_EVERY = 2.0


class Claims:
    """Claims for the worker while it has room, and brings every end home exactly once."""

    def __init__(
        self,
        store: ExecutionStore,
        locking: Locking,
        workload: Workload,
        *,
        hand_over: Callable[[Sequence[Claim]], None],
        kill: Callable[[Attempt, Outcome], None],
        on_room: Callable[[], None],
        hears: Callable[[], bool],
        may_start: Callable[[], bool],
        holding: Callable[[], set[Attempt]],
    ) -> None:
        self._may_start = may_start
        self._holding = holding
        self._store = store
        self._locking = locking
        self._workload = workload
        self._hand_over = hand_over
        self._kill = kill
        self._on_room = on_room
        self._hears = hears
        self._held: dict[Attempt, Claim] = {}
        self._ends = Ends(store, self._settle)
        self._tally = Tally(store)
        self._unstarted: deque[Attempt] = deque()
        self._open_token: UUID | None = None
        self._claiming = True
        self._was_empty = False
        self._missing: set[Attempt] = set()
        self._look = threading.Event()
        self._timetable = Timetable()
        self._loop = Loop("claims", self._run_once, retry=0.5)

    def start(self) -> None:
        """Begins to claim."""
        self._loop.start()

    def stop(self) -> None:
        """Ends the thread after the step it is in, and acknowledges once more what has ended by then.

        What belongs to others by now is refused, and on record for that.
        """
        self._loop.stop(15.0)
        try:
            self._return_unstarted()
            self._ends.acknowledge()
            self._tally.roll_up()
        except MutiraoError as error:
            log.warning("ends_not_acknowledged", attempts=len(self._ends), error=error.message)

    def wake(self) -> None:
        """There are jobs to claim, somebody says."""
        self._was_empty = False
        self._loop.wake()

    def look_for_cancels(self) -> None:
        """Somebody may want a running attempt ended."""
        self._look.set()
        self._loop.wake()

    def drain(self) -> None:
        """Claims nothing from here on, and returns what is only assigned."""
        self._claiming = False
        self._loop.wake()

    @property
    def count(self) -> int:
        """How many attempts are claimed and not yet acknowledged."""
        return len(self._held)

    def find(self, key: Attempt) -> Claim | None:
        """The claim of an attempt this node still answers for."""
        return self._held.get(key)

    def ended(self, acks: Sequence[Ack]) -> None:
        """Takes over how attempts ended; they are acknowledged soon, whatever fails meanwhile."""
        self._ends.add(acks)
        self._loop.wake()

    def never_started(self, keys: Sequence[Attempt]) -> None:
        """Takes back claims that no runner ever began."""
        if keys:
            self._unstarted.extend(keys)
            self._loop.wake()

    def _run_once(self) -> float:
        self._locking.renew(list(self._held))
        self._ends.acknowledge()
        self._return_unstarted()
        full = self._claim() if self._claiming else self._return_assigned()
        if self._timetable.due("look", LOOK_EVERY) or self._look.is_set():
            self._look.clear()
            self._end_cancelled()
        if self._timetable.due("correct", CORRECT_EVERY):
            self._correct()
        if self._timetable.due("roll_up", ROLL_UP_EVERY):
            self._tally.roll_up()
        if full or self._ends or self._unstarted:
            return 0.0
        return POLL if self._hears() else POLL_WITHOUT_REDIS

    def _claim(self) -> bool:
        """True when there may be more to claim and room for it."""
        room = self._workload.window() - len(self._held)
        if room <= 0 or not self._may_start():
            return False
        if self._open_token is None and self._was_empty and not self._store.assigned():
            return False  # a look costs less than a claim of nothing, which must reach the disk
        claims = self._claimed(min(room, BATCH))
        if claims is None:
            return True
        self._held.update((claim.key, claim) for claim in claims)
        self._open_token = None
        self._was_empty = not claims
        if not claims:
            return False
        metrics.CLAIMED.inc(len(claims))
        for claim in claims:
            metrics.JOB_WAIT_SECONDS.observe(claim.waited)
        granted, refused = self._locking.acquire(claims)
        self._unstarted.extend(claim.key for claim in refused)
        self._hand_over(granted)
        return len(claims) >= room

    def _claimed(self, limit: int) -> list[Claim] | None:
        """New claims, or those of an earlier try whose answer was lost; None: still not known."""
        if self._open_token is not None:
            return self._store.claimed(self._open_token)
        self._open_token = uuid4()
        try:
            return self._store.claim(self._open_token, limit)
        except OutcomeUnknown:
            return None
        except MutiraoError:
            self._open_token = None
            raise

    def _settle(self, acks: Sequence[Ack], answer: Acknowledged) -> None:
        for ack in acks:
            claim = self._held.pop(ack.key, None)
            if ack.key in answer.refused:
                continue
            if claim is not None:
                self._tally.add(claim, ack, answer)
        if answer.refused:
            metrics.ACKS_REFUSED.inc(len(answer.refused))
            log.warning("acknowledgements_refused", attempts=[f"{j}:{a}" for j, a in answer.refused])
        self._locking.release([ack.key for ack in acks])
        self._on_room()

    def _return_unstarted(self) -> None:
        keys = list(self._unstarted)
        if not keys:
            return
        self._hand_back({key: self._held[key].token for key in keys if key in self._held})
        for _ in keys:
            self._unstarted.popleft()

    def _hand_back(self, tokens: Mapping[Attempt, UUID]) -> None:
        if not tokens:
            return
        self._store.hand_back(tokens)
        metrics.HANDED_BACK.inc(len(tokens))
        log.info("handed_back", attempts=len(tokens))
        for key in tokens:
            self._held.pop(key, None)
        self._locking.release(list(tokens))
        self._on_room()

    def _return_assigned(self) -> bool:
        surplus = self._store.assigned()
        if surplus > 0:
            self._store.return_assigned(surplus)
            self._on_room()
        return False

    def _end_cancelled(self) -> None:
        if not self._held:
            return
        for key in self._store.cancel_requests():
            self._kill(key, Outcome.CANCELLED)
        if self._claiming and self._workload.stalled():
            # Busy with long ones: what waits behind them may start sooner elsewhere.
            self._return_assigned()

    def _correct(self) -> None:
        """Makes PostgreSQL's view of what runs here and this node's own agree."""
        if self._open_token is not None:
            return
        running = self._store.running()
        self._hand_back({key: token for key, token in running.items() if key not in self._held})
        for key in self._held.keys() - running.keys():
            # Somebody moved the job on: whatever still runs has no authority.
            self._kill(key, Outcome.INTERRUPTED)
        self._end_lost()

    def _end_lost(self) -> None:
        """An attempt that nobody here has any more, on two looks in a row, must not stay `running`."""
        missing = set(self._held) - self._holding() - set(self._unstarted)
        missing -= self._ends.keys()
        for key in missing & self._missing:
            log.error("attempt_lost_here", job=str(key[0]), attempt=key[1])
            told = {"type": "RunnerDied", "message": "the attempt's end was lost on its node"}
            self._ends.add([Ack(*key, Outcome.RUNNER_DIED, None, json.dumps(told), 0.0, 0.0)])
        self._missing = missing
