"""A database with everybody who writes to it: office, nodes, submitters; each step by the store's calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from threading import Barrier
from types import TracebackType
from typing import Any, TypeVar
from uuid import UUID, uuid4

import psycopg
from psycopg.rows import namedtuple_row

from mutirao.domain.job import NewJob, Outcome
from mutirao.domain.placement import Assignment
from mutirao.store.assignment import AssignmentStore
from mutirao.store.database import Database, TermHeld
from mutirao.store.execution import Ack, Acknowledged, Claim, ExecutionStore
from mutirao.store.jobs import Jobs
from mutirao.store.nodes import Identity, NodeStore, PublishedContract
from mutirao.store.once import OnceStore
from mutirao.store.term import TermStore
from mutirao.tail import Output
from tests.support.waiting import until

T = TypeVar("T")
U = TypeVar("U")

ECHO = PublishedContract("echo", "f1", "", "{}", "{}", "{}")


@dataclass(frozen=True, slots=True)
class Node:
    """One registered incarnation and what it may do."""

    id: UUID
    incarnation: int
    counter: int
    store: ExecutionStore
    moved: int = 0

    @property
    def once(self) -> OnceStore:
        """What its running attempts may ask."""
        return OnceStore(self.store._database, self.id, self.incarnation)

    def claim(self, limit: int = 100) -> list[Claim]:
        """Starts what it was given, under a new token."""
        return self.store.claim(uuid4(), limit)

    def end(self, claim: Claim, outcome: Outcome = Outcome.SUCCEEDED, **how: Any) -> Acknowledged:
        """Acknowledges one attempt."""
        again = how.pop("again", False)
        return self.store.acknowledge([ack(claim, outcome, **how)], again=again)


def ack(
    claim: Claim,
    outcome: Outcome = Outcome.SUCCEEDED,
    *,
    result: str | None = None,
    error: str | None = None,
    delay: float | None = None,
    output: Output | None = None,
) -> Ack:
    """How a claimed attempt ended."""
    return Ack(claim.job, claim.attempt, outcome, result, error, 0.01, delay, output)


def new_job(**fields: Any) -> NewJob:
    """A job of the handler `echo`, under a new id unless one is named."""
    return NewJob(**{"id": uuid4(), "handler": "echo", "payload": '{"message": "hi"}', **fields})


class Stage:
    """A migrated database, its stores and a way to look at its tables."""

    def __init__(self, dsn: str, *, timeout: float = 5.0) -> None:
        self.dsn = dsn
        self.database = Database(dsn, application_name="stage", size=4, timeout=timeout, steady_plans=True)
        self.jobs = Jobs(self.database)
        self.nodes = NodeStore(self.database)
        self.terms = TermStore(self.database)

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.database.close()
        if "_watcher" in self.__dict__:
            self._watcher.close()

    def office(self, holder: str | None = None) -> TermHeld:
        """The next term, taken."""
        office = self.terms.take(self.terms.read(), holder or f"holder-{uuid4().hex[:8]}", uuid4())
        assert office is not None
        return office

    def coordinator(self) -> AssignmentStore:
        """A coordinator in a new office."""
        return AssignmentStore(self.database, self.office())

    def node(
        self, node: UUID | None = None, former: int | None = None, serves: PublishedContract = ECHO
    ) -> Node:
        """A new node, or the next incarnation of one."""
        me = Identity(node or uuid4(), "node", "", 2, "1")
        incarnation, counter, moved = self.nodes.register(me, [serves], former)
        with self.database.transaction() as tx:
            tx.send("UPDATE beats SET capacity = 1000 WHERE node = %(node)s", {"node": me.node})
        return Node(me.node, incarnation, counter, ExecutionStore(self.database, me.node, incarnation), moved)

    def submit(self, count: int = 1, **fields: Any) -> list[UUID]:
        """New jobs, stored."""
        return [done.id for done in self.jobs.submit([new_job(**fields) for _ in range(count)])]

    def given(self, node: Node, count: int = 1, **fields: Any) -> list[UUID]:
        """New jobs, assigned to the node."""
        ids = self.submit(count, **fields)
        assert self.coordinator().assign(plan(ids, node)) == {node.id: count}
        return ids

    def start(self, node: Node, ids: Sequence[UUID]) -> list[Claim]:
        """Queued jobs, assigned to the node and started by it."""
        assert self.coordinator().assign(plan(ids, node)) == {node.id: len(ids)}
        claims = node.claim(len(ids))
        assert {claim.job for claim in claims} == set(ids)
        return claims

    def running(self, node: Node, count: int = 1, **fields: Any) -> list[Claim]:
        """New jobs, started by the node."""
        return self.start(node, self.submit(count, **fields))

    def contract(self, handler: str) -> int:
        """The id of the handler's contract that was published last; 0 if none ever was."""
        query = "SELECT id FROM contracts WHERE handler = %(name)s ORDER BY published_at DESC LIMIT 1"
        with self.database.transaction() as tx:
            row = tx.row(query, {"name": handler})
        return 0 if row is None else int(row.id)

    def rows(self, query: str, *params: object) -> list[Any]:
        """What the tables say, over a connection of its own."""
        return self._watcher.execute(query.encode(), params or None).fetchall()

    @cached_property
    def _watcher(self) -> psycopg.Connection[Any]:
        options = "-c search_path=mutirao"
        return psycopg.connect(self.dsn, autocommit=True, row_factory=namedtuple_row, options=options)

    def clear(self) -> None:
        """Empties every table and begins with term 0."""
        tables = "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition"
        tables += " AND relnamespace = 'mutirao'::regnamespace"
        kept = {"cluster", "term", "alembic_version"}
        self.write("TRUNCATE " + ", ".join({row.relname for row in self.rows(tables)} - kept))
        self.write("UPDATE term SET term = 0, holder = '', beat = 0")

    def write(self, query: str, *params: object) -> int:
        """Changes the tables past the store; returns how many rows."""
        with psycopg.connect(self.dsn) as connection:
            connection.execute("SET search_path = mutirao")
            return connection.execute(query.encode(), params or None).rowcount

    def state(self, job: UUID) -> str:
        """The job's one state, of both tables."""
        (state,) = self.jobs.states([job]).values()
        return str(state)

    def row(self, job: UUID) -> Any:
        """The job's row, of whichever table has it."""
        both = self.rows(
            "SELECT id, state::text, attempt, max_attempts, node, cancel_requested_at, NULL::jsonb AS error"
            " FROM jobs WHERE id = %s UNION ALL"
            " SELECT id, state::text, attempt, max_attempts, node, cancel_requested_at, error"
            " FROM finished_jobs WHERE id = %s",
            job,
            job,
        )
        (row,) = both
        return row

    def steps(self, job: UUID) -> list[tuple[str, str | None, str | None]]:
        """The job's audit trail: (event, from, to)."""
        return [
            (row.event, row.before, row.after)
            for row in self.rows(
                "SELECT event, from_state::text AS before, to_state::text AS after FROM audit"
                " WHERE job_id = %s ORDER BY id",
                job,
            )
        ]

    @contextmanager
    def later(self, call: Callable[[], T]) -> Iterator[Future[T]]:
        """The call's answer to come, while the block goes on."""
        with ThreadPoolExecutor(1) as pool:
            yield pool.submit(call)

    def blocked(self, count: int = 1) -> None:
        """Returns once so many in this database wait for a lock."""
        waits = (
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        until(lambda: len(self.rows(waits)) >= count, 3.0, f"{count} wait for a lock", every=0.01)

    def count(self, table: str) -> int:
        """How many rows a table has."""
        return int(self.rows(f"SELECT count(*) AS rows FROM {table}")[0].rows)


def plan(jobs: Iterable[UUID], node: Node, contract: int = 0) -> list[Assignment]:
    """All of the jobs, which are under this contract, for this node."""
    return [Assignment(job, node.id, node.incarnation, contract) for job in jobs]


def at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Runs the calls in parallel, one thread each, started together; returns their answers in order."""
    start = Barrier(len(calls))

    def run(call: Callable[[], T]) -> T:
        start.wait(10.0)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def race(one: Callable[[], T], other: Callable[[], U]) -> tuple[T, U]:
    """Both at once, each with its answer."""
    answers: list[Any] = at_once([one, other])
    return answers[0], answers[1]
