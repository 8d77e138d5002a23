"""Group commit: submissions that arrive while one is being stored are stored together next."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from mutirao.domain.job import NewJob, Submitted
from mutirao.errors import Conflict, InvalidInput, MutiraoError, StoreUnavailable

_GROUPED = 50
_LARGEST = 500

Store = Callable[[Sequence[NewJob]], list[Submitted]]


class _Entry:
    """One caller's jobs and what became of them."""

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        self.jobs = jobs
        self.turn = threading.Event()
        self.leads = False
        self.answers: list[Submitted] | None = None
        self.error: MutiraoError | None = None

    def result(self) -> list[Submitted]:
        if self.error is not None:
            raise self.error
        if self.answers is None:
            raise StoreUnavailable("the submission was not carried out")
        return self.answers


class GroupCommit:
    """Each caller gets the answer it would have got alone; nobody waits for others to arrive."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._waiting: list[_Entry] = []
        self._busy = False

    def submit(self, jobs: Sequence[NewJob]) -> list[Submitted]:
        """Stores all of the jobs or none; raises what storing them alone would raise."""
        if len(jobs) > _GROUPED:
            return self._store(jobs)
        entry = _Entry(jobs)
        with self._lock:
            self._waiting.append(entry)
            entry.leads = not self._busy
            self._busy = True
        if not entry.leads:
            entry.turn.wait()
        if entry.leads:
            self._lead()
        return entry.result()

    @property
    def waiting(self) -> int:
        """How many callers wait for their turn."""
        with self._lock:
            return len(self._waiting)

    def _lead(self) -> None:
        with self._lock:
            group = self._take()
        try:
            self._carry_out(group)
        finally:
            self._hand_over(group)

    def _take(self) -> list[_Entry]:
        taken = min(len(self._waiting), _LARGEST // _GROUPED)
        group, self._waiting = self._waiting[:taken], self._waiting[taken:]
        return group

    def _hand_over(self, group: list[_Entry]) -> None:
        with self._lock:
            following = self._waiting[0] if self._waiting else None
            self._busy = following is not None
        for entry in group:
            entry.turn.set()
        if following is not None:
            following.leads = True
            following.turn.set()

    def _carry_out(self, group: list[_Entry]) -> None:
        try:
            answers = iter(self._store([job for entry in group for job in entry.jobs]))
        except (Conflict, InvalidInput) as error:
            if len(group) == 1:
                group[0].error = error
                return
            # Nothing of the group was stored; only one of them is to blame.
            for entry in group:
                self._carry_out([entry])
        except MutiraoError as error:
            for entry in group:
                entry.error = error
        else:
            for entry in group:
                entry.answers = [next(answers) for _ in entry.jobs]
