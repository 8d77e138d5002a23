"""What running handlers ask and tell, between the runners and PostgreSQL; one thread."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID, uuid4

from mutirao.agent.progress import Progress
from mutirao.agent.runners import Asked, Runners
from mutirao.errors import Superseded
from mutirao.loop import Loop, Timetable
from mutirao.store.execution import Attempt
from mutirao.store.once import OnceStore, Wish

PROGRESS_EVERY = 0.5
RETRY = 0.5


class Notes:
    """Answers each question exactly once, when PostgreSQL has; passes progress on twice a second."""

    def __init__(self, runners: Runners, store: OnceStore) -> None:
        self._runners = runners
        self._store = store
        self._open: list[tuple[Asked, Wish]] = []
        self._told: dict[Attempt, Progress] = {}
        self._timetable = Timetable()
        self._loop = Loop("notes", self._run_once, retry=RETRY)

    def start(self) -> None:
        """Begins to listen."""
        self._runners.on_asked = self._loop.wake
        self._loop.start()

    def stop(self) -> None:
        """Ends the thread; who still waits for an answer waits until it is killed."""
        self._runners.on_asked = None
        self._loop.stop(15.0)

    def _run_once(self) -> float:
        self._open += [(asked, _wish(asked)) for asked in self._runners.asked()]
        self._answer()
        if self._timetable.due("progress", PROGRESS_EVERY):
            self._pass_progress_on()
        return PROGRESS_EVERY

    def _answer(self) -> None:
        if not self._open:
            return
        running = self._runners.running()
        # A thread that outlived its attempt may still wait, and hold up the next attempt's questions.
        over = [item for item in self._open if (item[1].job, item[1].attempt) not in running]
        self._settle(over, {})
        if not self._open:
            return
        try:
            answers = self._store.grant([wish for _, wish in self._open])
        except Superseded:
            answers = {}
        self._settle(self._open, answers)

    def _settle(self, settled: list[tuple[Asked, Wish]], answers: Mapping[UUID, bool | None]) -> None:
        for asked, wish in settled:
            self._runners.answer(asked, answers.get(wish.token))
        self._open = [item for item in self._open if item not in settled]

    def _pass_progress_on(self) -> None:
        progress = self._runners.progress()
        new = {key: said for key, said in progress.items() if self._told.get(key) != said}
        noted = self._store.note_progress(new) if new else frozenset()
        self._told = {key: said for key, said in progress.items() if key not in new or key in noted}


def _wish(asked: Asked) -> Wish:
    return Wish(asked.task.job_id, asked.task.attempt, asked.key, uuid4())
