"""Effects done once: the keys that attempts have asked for, kept for as long as there is the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from mutirao.store import sql
from mutirao.store.database import Database, Transaction
from mutirao.store.execution import Attempt

_SQL = sql.load("once.sql")
_EXECUTION = sql.load("execution.sql")
_JOBS = sql.load("jobs.sql")
_HOLD_NODE = "SELECT hold_node(%(node)s, %(incarnation)s)"


@dataclass(frozen=True, slots=True)
class Wish:
    """An attempt asks to be the only one ever to do what the key names; the token is the question's own."""

    job: UUID
    attempt: int
    key: str
    token: UUID


class OnceStore:
    """What running attempts of one incarnation ask and tell while they run."""

    def __init__(self, database: Database, node: UUID, incarnation: int) -> None:
        self._database = database
        self._me = {"node": node, "incarnation": incarnation}

    def grant(self, wishes: Sequence[Wish]) -> dict[UUID, bool | None]:
        """By token: True for the first wish of a job's key, else False; None where the attempt is over.

        The same token gets the same answer again, so that a lost one can be asked for; every answer has
        reached the disk (and the standbys). Raises OutcomeUnknown, StoreUnavailable, Superseded.
        """
        params = {
            **self._me,
            "ids": [wish.job for wish in wishes],
            "attempts": [wish.attempt for wish in wishes],
            "keys": [wish.key for wish in wishes],
            "tokens": [wish.token for wish in wishes],
        }

        def work(tx: Transaction) -> dict[UUID, bool | None]:
            tx.send(_HOLD_NODE, self._me)
            held = tx.send(_SQL.hold_running, params)
            tx.send(_SQL.take_keys, params)
            granted = tx.send(_SQL.whose_keys, params)
            tx.send(_JOBS.flush)  # also where nothing was written: a no rests on somebody's commit, too
            running = {(row.id, row.attempt) for row in held.fetchall()}
            first = {row.token for row in granted.fetchall()}
            return {
                wish.token: wish.token in first if (wish.job, wish.attempt) in running else None
                for wish in wishes
            }

        return self._database.run(work)

    def note_progress(self, progress: Mapping[Attempt, tuple[float, str]]) -> frozenset[Attempt]:
        """Notes how far attempts are (fraction, note), while they run; may be lost with the server.

        Returns those that it noted: a job that somebody holds at this moment is passed over.
        """
        params = {
            **self._me,
            "ids": [job for job, _ in progress],
            "attempts": [attempt for _, attempt in progress],
            "fractions": [fraction for fraction, _ in progress.values()],
            "notes": [note for _, note in progress.values()],
        }
        rows = self._database.run(lambda tx: tx.rows(_EXECUTION.note_progress, params), synchronous=False)
        return frozenset((row.id, row.attempt) for row in rows)
