"""What people do to jobs after submitting them: cancel, replay, discard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from mutirao.domain.job import State
from mutirao.domain.views import JobView, LetterFilter
from mutirao.errors import Conflict, NotFound
from mutirao.services.requests import LettersByFilter, LettersById
from mutirao.services.waker import Waker
from mutirao.store.insights import Insights
from mutirao.store.jobs import Jobs
from mutirao.store.lists import Lists


@dataclass(frozen=True, slots=True)
class Changed:
    """A job's id and its state after the change (`cancelling` while its runner is being killed)."""

    id: UUID
    state: str


@dataclass(frozen=True, slots=True)
class Decided:
    """What a decision about `matched` dead letters did; what is not `done` was none any more."""

    matched: int
    done: list[UUID]
    next_cursor: str | None

    @property
    def left(self) -> int:
        """How many matched and were left alone."""
        return self.matched - len(self.done)


class JobService:
    """Changes of one job, and decisions about many; the errors say what rules a change out."""

    def __init__(self, jobs: Jobs, insights: Insights, lists: Lists, waker: Waker) -> None:
        self._jobs = jobs
        self._insights = insights
        self._lists = lists
        self._waker = waker

    def show(self, job_id: UUID) -> JobView:
        """The job with its attempts and history; NotFound."""
        job = self._insights.job(job_id)
        if job is None:
            raise NotFound(f"no job has the id {job_id}")
        return job

    def cancel(self, job_id: UUID, *, actor: str) -> Changed:
        """Ends the job, at once or by killing its runner; again is fine; Conflict when it ended otherwise."""
        done = self._jobs.cancel([job_id], actor)
        if job_id in done.ended:
            return Changed(job_id, State.CANCELLED)
        if job_id in done.asked:
            self._waker.cancel([job_id])
            return Changed(job_id, "cancelling")
        state = done.too_late.get(job_id)
        if state is None:
            raise NotFound(f"no job has the id {job_id}")
        if state is not State.CANCELLED:
            raise Conflict(f"the job has already ended: {state}", hint="Only a live job can be cancelled.")
        return Changed(job_id, state)

    def dead_letter(self, job_id: UUID) -> JobView:
        """The dead job, discarded or not; NotFound when there is none or it is not dead."""
        job = self.show(job_id)
        if job.state != State.DEAD:
            raise NotFound(f"the job {job_id} is no dead letter: it is {job.state}")
        return job

    def replay(self, job_id: UUID, *, actor: str, attempt: int | None = None) -> Changed:
        """Queues the dead job again with a full set of attempts; Conflict unless it is a dead letter.

        With `attempt`, Conflict also when it died at another one.
        """
        if job_id not in self._jobs.replay([job_id], actor, attempt):
            raise self._not_dead(job_id, "replayed")
        self._waker.work()
        return Changed(job_id, State.QUEUED)

    def discard(self, job_id: UUID, *, actor: str, attempt: int | None = None) -> Changed:
        """Puts the dead job aside for good; Conflict as above."""
        if job_id not in self._jobs.discard([job_id], actor, attempt):
            raise self._not_dead(job_id, "discarded")
        return Changed(job_id, State.DEAD)

    def replay_many(self, chosen: LettersById | LettersByFilter, *, actor: str) -> Decided:
        """Queues those of the jobs that are dead letters again, all in one transaction."""
        decided = self._decide(self._jobs.replay, chosen, actor)
        if decided.done:
            self._waker.work()
        return decided

    def discard_many(self, chosen: LettersById | LettersByFilter, *, actor: str) -> Decided:
        """Puts those of the jobs that are dead letters aside, all in one transaction."""
        return self._decide(self._jobs.discard, chosen, actor)

    def _decide(
        self,
        decision: Callable[[Sequence[UUID], str], frozenset[UUID]],
        chosen: LettersById | LettersByFilter,
        actor: str,
    ) -> Decided:
        ids, next_cursor = self._chosen(chosen)
        done = decision(ids, actor) if ids else frozenset()
        return Decided(len(ids), [job for job in ids if job in done], next_cursor)

    def _chosen(self, chosen: LettersById | LettersByFilter) -> tuple[list[UUID], str | None]:
        if isinstance(chosen, LettersById):
            return list(dict.fromkeys(chosen.ids)), None
        wanted = LetterFilter(**chosen.filter.model_dump())
        page = self._lists.dead_letters(wanted, chosen.cursor, chosen.limit)
        return [letter.id for letter in page.items], page.next_cursor

    def _not_dead(self, job_id: UUID, verb: str) -> Conflict:
        job = self.show(job_id)
        state = "discarded" if job.discarded_at else job.state
        if state == State.DEAD:
            return Conflict(f"the job has died again, at attempt {job.attempt}", hint="Look at it first.")
        return Conflict(f"the job is {state}", hint=f"Only a dead letter can be {verb}, and only once.")
