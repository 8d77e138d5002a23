"""A node's dealings with its runners: hands claims over, turns ends into acknowledgements; one thread."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence

from mutirao import metrics
from mutirao.agent.claims import Claims
from mutirao.agent.runners import Finished, Runners, Task
from mutirao.agent.workload import Workload
from mutirao.domain import retry
from mutirao.domain.job import Outcome
from mutirao.loop import Loop
from mutirao.store.execution import Ack, Attempt, Claim

POLL = 0.5


class Worker:
    """Keeps the runners busy; never touches a store, so that no outage delays a timeout or a kill."""

    def __init__(
        self,
        runners: Runners,
        workload: Workload,
        *,
        on_fenced: Callable[[], None],
        on_guard_died: Callable[[], None],
    ) -> None:
        self._runners = runners
        self._workload = workload
        self._on_fenced = on_fenced
        self._on_guard_died = on_guard_died
        self._waiting: deque[Claim] = deque()
        self._random = random.SystemRandom()
        self._loop = Loop("worker", self._run_once, retry=0.2)
        self._claims: Claims | None = None

    def start(self, claims: Claims) -> None:
        """Begins to serve what is claimed."""
        self._claims = claims
        self._loop.start()

    def stop(self) -> None:
        """Ends the thread; the runners go on until they are told otherwise."""
        self._loop.stop()
        self._runners.wake()
        self._loop.stop(15.0)
        if self._claims is not None:
            self._claims.never_started(self._take_unstarted())
            self._report(self._claims, self._runners.last_words())

    def hand_over(self, claims: Sequence[Claim]) -> None:
        """Takes claims to run, in this order."""
        self._waiting.extend(claims)
        self._runners.wake()

    def kill(self, key: Attempt, outcome: Outcome) -> None:
        """Ends an attempt wherever it is; its end is acknowledged with this outcome."""
        self._runners.kill(*key, outcome)

    def return_unstarted(self) -> None:
        """Hands back what no runner has begun."""
        if self._claims is not None:
            self._claims.never_started(self._take_unstarted())

    def kill_all(self, outcome: Outcome) -> None:
        """Ends every attempt."""
        for key in self._runners.running():
            self.kill(key, outcome)

    def _run_once(self) -> float:
        claims = self._claims
        if claims is None or self._ended():
            return 1.0
        self._submit()
        finished = self._runners.poll(POLL)
        if finished:
            self._report(claims, finished)
        elif self._workload.stalled() and not self._runners.idle:
            # Every runner has a long one: what waits behind them may start sooner elsewhere.
            claims.never_started(self._take_unstarted())
        metrics.RUNNERS_BUSY.set(self._runners.outstanding)
        return 0.0

    def _take_unstarted(self) -> list[Attempt]:
        unstarted = [(task.job_id, task.attempt) for task in self._runners.withdraw()]
        unstarted += [claim.key for claim in self._waiting]
        self._waiting.clear()
        return unstarted

    def holding(self) -> set[Attempt]:
        """What waits or runs here, and what ended without having been handed on yet."""
        return {*self._runners.running(), *(claim.key for claim in list(self._waiting))}

    def _ended(self) -> bool:
        if not self._runners.alive:
            self._on_guard_died()
            return True
        if self._runners.fenced:
            self._on_fenced()
            return True
        return False

    def _submit(self) -> None:
        if not self._waiting:
            return
        if self._runners.idle:
            self._workload.idle()
        taken = self._runners.submit([_task(claim) for claim in list(self._waiting)])
        for _ in range(taken):
            self._waiting.popleft()

    def _report(self, claims: Claims, finished: Sequence[Finished]) -> None:
        if not finished:
            return
        acks = [self._ack(claims, item) for item in finished]
        claims.ended([ack for ack in acks if ack is not None])
        self._workload.ended(sum(item.seconds for item in finished), len(finished))

    def _ack(self, claims: Claims, end: Finished) -> Ack | None:
        claim = claims.find((end.job_id, end.attempt))
        if claim is None:
            return None
        attempt = retry.Attempt(claim.attempt, claim.bound, end.outcome, end.retry_after, end.discard)
        return Ack(
            end.job_id,
            end.attempt,
            end.outcome,
            _text(end.result),
            _text(end.error),
            end.seconds,
            retry.delay(attempt, claim.backoff, self._random),
            end.output,
        )


def _task(claim: Claim) -> Task:
    return Task(claim.job, claim.attempt, claim.handler, claim.payload.encode(), claim.timeout)


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode(errors="replace")
