"""Following jobs nobody has named yet: those that fit a filter, from their submission to their end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from mutirao.client.answers import typed
from mutirao.client.rest import MAX_IDS, Rest
from mutirao.client.watching import Pace, WaitTimeout
from mutirao.domain.job import ENDED
from mutirao.domain.views import JobSummary

PAGE = 500
# A submission's time is drawn before it commits, so each look goes back a little.
OVERLAP = timedelta(seconds=10)

_Look = tuple[str, int, bool]


class Changes:
    """Each job that fits and was submitted from now on, whenever its state is seen to have changed.

    Remembers the jobs that have not ended, and the newest ones.
    """

    def __init__(self, rest: Rest, wanted: Mapping[str, object]) -> None:
        self._rest = rest
        self._wanted = wanted
        self._live: dict[str, _Look] = {}
        newest = rest.jobs(limit=1)["jobs"]
        self._since = datetime.fromisoformat(newest[0]["created_at"]) if newest else None
        self._known: dict[str, datetime] = {}
        self._known = {str(job.id): job.created_at for job in self._latest()}

    def run(self, timeout: float | None) -> Iterator[JobSummary]:
        """Ends after `timeout` seconds, or never."""
        pace = Pace(timeout)
        while True:
            seen = [*self._new(), *self._changed()]
            yield from seen
            try:
                pace.rest(progress=bool(seen), waiting="", hint="")
            except WaitTimeout:
                return

    def _new(self) -> list[JobSummary]:
        found = [job for job in self._latest() if str(job.id) not in self._known]
        for job in found:
            self._known[str(job.id)] = job.created_at
            self._since = max(self._since or job.created_at, job.created_at)
            if job.state not in ENDED:
                self._live[str(job.id)] = _look(job)
        if self._since is not None:
            floor = self._since - OVERLAP
            self._known = {job: at for job, at in self._known.items() if at >= floor}
        # Submitted first, told first.
        return found[::-1]

    def _changed(self) -> Iterator[JobSummary]:
        followed = list(self._live)
        for start in range(0, len(followed), MAX_IDS):
            asked = followed[start : start + MAX_IDS]
            found = {
                job["id"]: typed(job.text, JobSummary) for job in self._rest.summaries(asked).items("jobs")
            }
            for one in asked:
                job = found.get(one)
                if job is None or job.state in ENDED:
                    del self._live[one]
                elif _look(job) == self._live[one]:
                    continue
                else:
                    self._live[one] = _look(job)
                if job is not None:
                    yield job

    def _latest(self) -> list[JobSummary]:
        """The newest jobs that fit, back to a little before the last one that is known."""
        after = None if self._since is None else (self._since - OVERLAP).isoformat()
        jobs: list[JobSummary] = []
        cursor: str | None = None
        while True:
            page = self._rest.jobs(**self._wanted, created_after=after, limit=PAGE, cursor=cursor)
            jobs += (typed(job.text, JobSummary) for job in page.items("jobs"))
            cursor = page["next_cursor"]
            if cursor is None:
                return jobs


def _look(job: JobSummary) -> _Look:
    return job.state, job.attempt, job.cancelling
