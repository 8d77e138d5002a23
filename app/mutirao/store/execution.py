"""A node's writes about its own jobs: claims, acknowledgements, hand-backs, all bound to its incarnation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from mutirao.domain.job import Backoff, Outcome, State
from mutirao.failpoints import armed, failpoint
from mutirao.store import sql
from mutirao.store.database import Database, Transaction
from mutirao.tail import Output

_SQL = sql.load("execution.sql")
_ASSIGNMENT = sql.load("assignment.sql")
_JOBS = sql.load("jobs.sql")
_HOLD_NODE = sql.load("nodes.sql").hold_node

Attempt = tuple[UUID, int]


@dataclass(frozen=True, slots=True)
class Claim:
    """A started attempt, with all that its runner and its acknowledgement need; `payload` is JSON text.

    `waited` is how many seconds the job was due before it started.
    """

    job: UUID
    attempt: int
    bound: int
    handler: str
    payload: str
    timeout: float
    backoff: Backoff
    token: UUID
    waited: float

    @property
    def key(self) -> Attempt:
        """(job, attempt): the fencing token."""
        return self.job, self.attempt


@dataclass(frozen=True, slots=True)
class Ack:
    """How an attempt ended; `delay` (seconds) asks for a retry, None for the end. Result and error: JSON.

    `output` is what the attempt wrote, None for nothing.
    """

    job: UUID
    attempt: int
    outcome: Outcome
    result: str | None
    error: str | None
    seconds: float
    delay: float | None
    output: Output | None = None

    @property
    def key(self) -> Attempt:
        """(job, attempt): the fencing token."""
        return self.job, self.attempt


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The store's answer: where each applied acknowledgement led, and which were refused."""

    applied: dict[Attempt, State]
    repeated: frozenset[Attempt]
    refused: frozenset[Attempt]


class ExecutionStore:
    """What one incarnation of a node may do to its jobs; raises Superseded where the node row says so."""

    def __init__(self, database: Database, node: UUID, incarnation: int) -> None:
        self._database = database
        self._me = {"node": node, "incarnation": incarnation}

    def claim(self, token: UUID, limit: int) -> list[Claim]:
        """Starts up to `limit` attempts of what the node was assigned, marked with the token.

        Raises OutcomeUnknown; the attempts may then be running already: ask `claimed` under this token.
        """
        params = {**self._me, "token": token, "limit": limit}

        def work(tx: Transaction) -> list[Claim]:
            tx.send(_HOLD_NODE, self._me)
            rows = tx.send(_SQL.claim, params)
            if armed("claim.inside"):
                tx.sync()
                failpoint("claim.inside")
            return [_claim(row, token) for row in rows.fetchall()]

        return self._database.run(work)

    def claimed(self, token: UUID) -> list[Claim]:
        """What runs under the token after all; durable once this returns."""

        def work(tx: Transaction) -> list[Claim]:
            tx.send(_HOLD_NODE, self._me)
            rows = tx.rows(_SQL.claimed_under, {**self._me, "token": token})
            tx.send(_JOBS.flush)
            return [_claim(row, token) for row in rows]

        return self._database.run(work)

    def acknowledge(self, acks: Sequence[Ack], *, again: bool = False) -> Acknowledged:
        """Ends the attempts that are still this incarnation's; the others are refused and audited.

        With `again` (an earlier try's outcome is unknown) what that try applied counts as repeated.
        Raises InvalidInput if PostgreSQL refuses a value, OutcomeUnknown, StoreUnavailable.
        """
        outputs = [ack.output.fitted() if ack.output is not None else None for ack in acks]
        params = {
            **self._me,
            "ids": [ack.job for ack in acks],
            "attempts": [ack.attempt for ack in acks],
            "outcomes": [str(ack.outcome) for ack in acks],
            "results": [ack.result for ack in acks],
            "errors": [ack.error for ack in acks],
            "seconds": [ack.seconds for ack in acks],
            "delays": [ack.delay for ack in acks],
            "outputs": [output.text() if output is not None else None for output in outputs],
            "dropped": [output.dropped if output is not None else 0 for output in outputs],
        }

        def work(tx: Transaction) -> Acknowledged:
            rows = tx.rows(_SQL.acknowledge, params)
            applied = {(row.id, row.attempt): State(row.next) for row in rows}
            left = [ack for ack in acks if ack.key not in applied]
            if not left:
                return Acknowledged(applied, frozenset(), frozenset())
            repeated = self._applied_already(tx, left) if again else frozenset()
            refused = [ack for ack in left if ack.key not in repeated]
            if refused:
                tx.send(_SQL.log_refused, {**self._me, **_columns(refused)})
            tx.send(_JOBS.flush)
            return Acknowledged(applied, repeated, frozenset(ack.key for ack in refused))

        return self._database.run(work)

    def _applied_already(self, tx: Transaction, acks: Sequence[Ack]) -> frozenset[Attempt]:
        rows = tx.rows(_SQL.applied_already, {**self._me, **_columns(acks)})
        return frozenset((row.id, row.attempt) for row in rows)

    def running(self) -> dict[Attempt, UUID]:
        """What this incarnation runs according to PostgreSQL, with each claim's token."""
        with self._database.transaction() as tx:
            return {(r.id, r.attempt): r.token for r in tx.rows(_SQL.running_here, self._me)}

    def cancel_requests(self) -> list[Attempt]:
        """The running attempts that somebody wants ended."""
        with self._database.transaction() as tx:
            return [(r.id, r.attempt) for r in tx.rows(_SQL.cancel_requests, self._me)]

    def hand_back(self, claims: Mapping[Attempt, UUID]) -> frozenset[Attempt]:
        """Returns claimed attempts that never started, each known by its token; their bound grows by one."""
        params = {
            **self._me,
            "ids": [job for job, _ in claims],
            "attempts": [attempt for _, attempt in claims],
            "tokens": list(claims.values()),
        }
        rows = self._database.run(lambda tx: tx.rows(_SQL.hand_back, params))
        return frozenset((row.id, row.attempt) for row in rows)

    def assigned(self) -> int:
        """How many jobs wait here to be started."""
        with self._database.transaction() as tx:
            return int(tx.one(_SQL.assigned_here, self._me).jobs)

    def return_assigned(self, limit: int) -> int:
        """Returns up to `limit` assigned jobs, the worst-ranked first, to the queue; returns how many."""
        params = {
            "nodes": [self._me["node"]],
            "incarnation": self._me["incarnation"],
            "limit": limit,
            "actor": "worker",
            "term": None,
        }
        return int(self._database.run(lambda tx: tx.one(_ASSIGNMENT.take_back, params)).taken)

    def roll_up(self, counts: Mapping[tuple[str, Outcome], tuple[int, float]]) -> None:
        """Adds (count, seconds) to this minute's outcomes of each handler; may be lost with the server."""
        params = {
            "handlers": [handler for handler, _ in counts],
            "outcomes": [str(outcome) for _, outcome in counts],
            "counts": [count for count, _ in counts.values()],
            "seconds": [seconds for _, seconds in counts.values()],
        }
        self._database.run(lambda tx: tx.execute(_SQL.roll_up, params), synchronous=False)


def _claim(row: Any, token: UUID) -> Claim:
    job, attempt, bound, handler, payload, timeout, base, cap, waited = row
    return Claim(job, attempt, bound, handler, payload, timeout, Backoff(base, cap), token, waited)


def _columns(acks: Sequence[Ack]) -> dict[str, object]:
    return {
        "ids": [ack.job for ack in acks],
        "attempts": [ack.attempt for ack in acks],
        "outcomes": [str(ack.outcome) for ack in acks],
    }
