"""Submitting, cancelling, replaying and discarding jobs: what people ask of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from mutirao.domain.job import NewJob, State, Submitted
from mutirao.errors import Conflict, OutcomeUnknown, StoreUnavailable
from mutirao.store import sql
from mutirao.store.database import Database, Transaction

_SQL = sql.load("jobs.sql")


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What cancelling did: ended at once, asked of the node that runs it, or too late."""

    ended: frozenset[UUID]
    asked: dict[UUID, UUID]
    too_late: dict[UUID, State]


class Jobs:
    """Every change that people make to jobs; each call is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def submit(self, jobs: Sequence[NewJob]) -> list[Submitted]:
        """Stores all of the jobs or none, in the order given; a repeated key gives the job it first made.

        Raises Conflict (a key came before with another body), OutcomeUnknown when even the second try
        under the same ids left the commit's outcome open, StoreUnavailable.
        """
        try:
            return self._submit(jobs, again=False)
        except OutcomeUnknown as unknown:
            try:
                return self._submit(jobs, again=True)
            except StoreUnavailable:
                raise unknown from None

    def _submit(self, jobs: Sequence[NewJob], *, again: bool) -> list[Submitted]:
        return self._database.run(lambda tx: _Submission(tx, jobs).store(again=again))

    def cancel(self, ids: Sequence[UUID], actor: str) -> Cancelled:
        """Ends what has not started and asks for the end of what runs."""

        def work(tx: Transaction) -> Cancelled:
            held = {"ids": list(ids), "actor": actor}
            tx.send(_SQL.hold_jobs, held)
            ended = tx.send(_SQL.cancel_unstarted, held)
            asked = tx.send(_SQL.request_cancel, held)
            left = tx.send(_SQL.states, held)
            gone = frozenset(row.id for row in ended.fetchall())
            running = {row.id: row.node for row in asked.fetchall()}
            states = {row.id: State(row.state) for row in left.fetchall()}
            late = {i: s for i, s in states.items() if i not in gone and i not in running}
            if not gone and not running:
                tx.send(_SQL.flush)
            return Cancelled(gone, running, late)

        return self._database.run(work)

    def replay(self, ids: Sequence[UUID], actor: str, attempt: int | None = None) -> frozenset[UUID]:
        """Queues those of the jobs that are dead letters again; a job is replayed by one caller only.

        With `attempt`, only a death at that attempt: a repeated request never undoes a later death.
        """
        return self._changed(_SQL.replay, ids, actor, attempt)

    def discard(self, ids: Sequence[UUID], actor: str, attempt: int | None = None) -> frozenset[UUID]:
        """Puts those of the jobs that are dead letters aside for good; `attempt` as above."""
        return self._changed(_SQL.discard, ids, actor, attempt)

    def states(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        """Where those of the jobs that exist are now."""
        with self._database.transaction() as tx:
            return {row.id: State(row.state) for row in tx.rows(_SQL.states, {"ids": list(ids)})}

    def forget_keys(self, kept: float, limit: int = 1000) -> int:
        """Drops up to `limit` idempotency keys older than `kept` seconds; returns how many."""
        params = {"kept": kept, "limit": limit}
        return self._database.run(lambda tx: tx.execute(_SQL.forget_keys, params), synchronous=False)

    def _changed(
        self, statement: str, ids: Sequence[UUID], actor: str, attempt: int | None
    ) -> frozenset[UUID]:
        params = {"ids": list(ids), "actor": actor, "attempt": attempt}
        rows = self._database.run(lambda tx: tx.rows(statement, params))
        return frozenset(row.id for row in rows)


class _Submission:
    """One batch inside its transaction."""

    def __init__(self, tx: Transaction, jobs: Sequence[NewJob]) -> None:
        self._tx = tx
        self._jobs = jobs
        self._keyed = {job.idempotency_key: job for job in reversed(jobs) if job.idempotency_key is not None}

    def store(self, *, again: bool) -> list[Submitted]:
        owner = self._owners()
        mine = [job for job in self._jobs if self._winner(owner, job) == job.id]
        states = self._states([job.id for job in mine]) if again else {}
        new = [job for job in mine if job.id not in states]
        stored = self._insert(new) if new else {}
        # Made under their key before, or by a first try that committed while this one waited for it.
        earlier = {self._winner(owner, job) for job in self._jobs} - stored.keys() - states.keys()
        states |= self._states(sorted(earlier)) | stored
        if not stored:
            # Whatever made these jobs may not have reached the standbys yet.
            self._tx.send(_SQL.flush)
        answers = []
        for job in self._jobs:
            winner = self._winner(owner, job)
            made = winner == job.id and job.id in states
            answers.append(Submitted(winner, states.get(winner, State.SUCCEEDED), made))
        return answers

    @staticmethod
    def _winner(owner: Mapping[str, UUID], job: NewJob) -> UUID:
        return job.id if job.idempotency_key is None else owner[job.idempotency_key]

    def _owners(self) -> dict[str, UUID]:
        """The job that each key of the batch stands for."""
        if not self._keyed:
            return {}
        keys = list(self._keyed)
        params = {
            "keys": keys,
            "hashes": [self._keyed[key].request_hash for key in keys],
            "ids": [self._keyed[key].id for key in keys],
        }
        self._tx.send(_SQL.reserve_keys, params)
        known = {row.key: row for row in self._tx.rows(_SQL.known_keys, {"keys": keys})}
        for job in self._jobs:
            key = job.idempotency_key
            if key is not None and key not in known:
                raise StoreUnavailable("an idempotency key was let go of just now; the same request will do")
            if key is not None and known[key].hash != job.request_hash:
                raise Conflict(
                    f"the idempotency key {key!r} was used before with another request",
                    hint="Use a new key for a new request; the same key only repeats the same request.",
                )
        return {key: row.id for key, row in known.items()}

    def _states(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        if not ids:
            return {}
        return {row.id: State(row.state) for row in self._tx.rows(_SQL.states, {"ids": list(ids)})}

    def _insert(self, jobs: Sequence[NewJob]) -> dict[UUID, State]:
        params = {
            "ids": [job.id for job in jobs],
            "handlers": [job.handler for job in jobs],
            "payloads": [job.payload for job in jobs],
            "queues": [job.queue for job in jobs],
            "priorities": [job.priority for job in jobs],
            "max_retries": [job.max_retries for job in jobs],
            "backoff_bases": [job.backoff.base for job in jobs],
            "backoff_caps": [job.backoff.cap for job in jobs],
            "timeouts": [job.timeout for job in jobs],
            "run_ats": [job.run_at for job in jobs],
            "keys": [job.idempotency_key for job in jobs],
            "submitted_bys": [job.submitted_by for job in jobs],
            "traceparents": [job.traceparent for job in jobs],
            "contracts": [job.contract for job in jobs],
        }
        return {row.id: State(row.state) for row in self._tx.rows(_SQL.insert_jobs, params)}
