"""Following jobs to their end: bounded in memory, a request for every hundred of them, no busy loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from mutirao.client.answers import Document
from mutirao.client.rest import MAX_IDS, Rest
from mutirao.domain.job import ENDED
from mutirao.errors import MutiraoError, NotFound

WINDOW = 5000
OVERLAP = 2000
LOOK = 500
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0


class WaitTimeout(MutiraoError):
    """What was waited for had not ended in time; it goes on."""

    code = "wait_timeout"


class Pace:
    """Pauses that grow while nothing happens, and end with WaitTimeout after `timeout` seconds."""

    def __init__(self, timeout: float | None) -> None:
        self._until = time.monotonic() + (float("inf") if timeout is None else timeout)
        self._pause, self._looked = _FIRST_PAUSE, time.monotonic()

    def rest(self, *, progress: bool, waiting: str, hint: str) -> None:
        """Waits until it is time to look again."""
        now = time.monotonic()
        if now >= self._until:
            raise WaitTimeout(waiting, hint=hint)
        self._pause = _FIRST_PAUSE if progress else min(self._pause * 1.5, _LONGEST_PAUSE)
        # Looking must stay a small part of what the cluster does, however many jobs are looked at.
        time.sleep(min(max(self._pause, now - self._looked), self._until - now))
        self._looked = time.monotonic()


def wait(
    rest: Rest, job_id: str, timeout: float | None, seen: Callable[[Document], None] = lambda _: None
) -> Document:
    """The job once it has ended, `seen` being shown it before; WaitTimeout after `timeout` seconds."""
    pace = Pace(timeout)
    while True:
        job = rest.job(job_id)
        if job["state"] in ENDED:
            return job
        seen(job)
        hint = f"It goes on; see it with `mutirao jobs show {job_id}`."
        pace.rest(progress=False, waiting=f"the job {job_id} is still {job['state']}", hint=hint)


def ended(rest: Rest, ids: Iterable[str], timeout: float | None) -> Iterator[Document]:
    """The jobs' summaries, each as its job ends; takes from `ids` only as many as it follows at a time."""
    coming, pending, pace = iter(ids), dict[str, None](), Pace(timeout)
    while True:
        # A little first: `ids` may come slowly, and what has ended should not wait for them.
        pending |= dict.fromkeys(islice(coming, min(max(len(pending), MAX_IDS), WINDOW - len(pending))))
        if not pending:
            return
        before = len(pending)
        for job in _look(rest, list(pending)):
            del pending[str(job["id"])]
            yield job
        if pending:
            waiting = f"{len(pending)} jobs have not ended, {next(iter(pending))} first"
            pace.rest(progress=len(pending) < before, waiting=waiting, hint="They go on.")


def _look(rest: Rest, ids: list[str]) -> Iterator[Document]:
    """Those of the jobs that have ended; NotFound when there is no such job."""
    for start in range(0, len(ids), MAX_IDS):
        asked = ids[start : start + MAX_IDS]
        found = rest.summaries(asked).items("jobs")
        missing = set(asked) - {str(job["id"]) for job in found}
        if missing:
            raise NotFound(f"no job has the id {min(missing)}")
        yield from (job for job in found if job["state"] in ENDED)


def news(rest: Rest, query: Mapping[str, object], first: int) -> Iterator[Document]:
    """The audit log as it grows, for ever: its last `first` entries that fit, then new ones, oldest first.

    An entry's id is drawn before its transaction commits, so each look goes some ids back; an entry whose
    transaction was overtaken by more than those is missed here, and in the log all the same.
    """
    seen = dict[int, None]()
    entries = rest.audit(**query, limit=first).items("entries")
    newest = max((int(entry["id"]) for entry in rest.audit(limit=1)["entries"]), default=0)
    floor = min((int(entry["id"]) for entry in entries), default=newest) - 1
    while True:
        for entry in reversed(entries):
            if entry["id"] not in seen:
                seen[entry["id"]] = None
                yield entry
        for old in list(islice(seen, max(0, len(seen) - 2 * OVERLAP))):
            del seen[old]
        time.sleep(_LONGEST_PAUSE)
        since = max(floor, newest - OVERLAP)
        newest = max((int(entry["id"]) for entry in rest.audit(limit=1)["entries"]), default=newest)
        entries = _entries_above(rest, query, since)


def _entries_above(rest: Rest, query: Mapping[str, object], since: int) -> list[Document]:
    found: list[Document] = []
    cursor: str | None = None
    while True:
        page = rest.audit(**query, limit=LOOK, cursor=cursor)
        found += (entry for entry in page.items("entries") if entry["id"] > since)
        cursor = page["next_cursor"]
        # A cursor of the audit log is the id above which the page has told everything.
        if cursor is None or int(cursor) <= since:
            return found
