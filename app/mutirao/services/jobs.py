"""What people do to jobs after submitting them: cancel, replay, discard."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from mutirao.domain.job import State
from mutirao.domain.views import JobView
from mutirao.errors import Conflict, NotFound
from mutirao.services.waker import Waker
from mutirao.store.insights import Insights
from mutirao.store.jobs import Jobs


@dataclass(frozen=True, slots=True)
class Changed:
    """A job's id and its state after the change (`cancelling` while its runner is being killed)."""

    id: UUID
    state: str


class JobService:
    """One job at a time; the errors say what rules a change out."""

    def __init__(self, jobs: Jobs, insights: Insights, waker: Waker) -> None:
        self._jobs = jobs
        self._insights = insights
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

    def replay(self, job_id: UUID, *, actor: str) -> Changed:
        """Queues the dead job again with a full set of attempts; Conflict unless it is a dead letter."""
        if job_id not in self._jobs.replay([job_id], actor):
            raise self._not_dead(job_id, "replayed")
        self._waker.work()
        return Changed(job_id, State.QUEUED)

    def discard(self, job_id: UUID, *, actor: str) -> Changed:
        """Puts the dead job aside for good; Conflict unless it is a dead letter."""
        if job_id not in self._jobs.discard([job_id], actor):
            raise self._not_dead(job_id, "discarded")
        return Changed(job_id, State.DEAD)

    def _not_dead(self, job_id: UUID, verb: str) -> Conflict:
        job = self.show(job_id)
        state = "discarded" if job.discarded_at else job.state
        return Conflict(f"the job is {state}", hint=f"Only a dead letter can be {verb}, and only once.")
