"""What `mutirao bench` asks of PostgreSQL: the raw floor of this machine, and what became of the jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg

from mutirao.errors import StoreUnavailable
from mutirao.loop import boottime
from mutirao.store import sql
from mutirao.store.database import Database

_SQL = sql.load("bench.sql")
_NOW = "2026-01-01 00:00:00+00"
_JOB = (
    "queued",
    "echo",
    '{{"message": "x"}}',
    "default",
    5,
    0,
    1,
    1,
    300,
    300,
    _NOW,
    "api",
    "",
    _NOW,
    1.5,
    _NOW,
)
_JOB_ROW = "\t".join(["{0}", *map(str, _JOB)]) + "\n"
_NARROW_ROW = '{0}\t0\t{{"message": "x"}}\n'
_OPTIONS = "-c search_path=mutirao -c synchronous_commit=on -c jit=off"


class Floor:
    """Plain statements on tables of its own; every commit is durable."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    @contextmanager
    def tables(self) -> Iterator[None]:
        """The tables exist inside, and are gone afterwards."""
        with self._connected() as connection:
            connection.execute(_SQL.create_floor)
            connection.execute(_SQL.create_narrow_floor)
        try:
            yield
        finally:
            with self._connected() as connection:
                connection.execute(_SQL.drop_floor)

    def copy(self, ids: Sequence[UUID]) -> float:
        """Seconds to COPY one row shaped like a job for each id, one commit."""
        return self._copy(_SQL.copy_floor, "".join(_JOB_ROW.format(one) for one in ids))

    def copy_narrow(self, ids: Sequence[UUID]) -> float:
        """Seconds to COPY one narrow row for each id, one commit."""
        return self._copy(_SQL.copy_narrow_floor, "".join(_NARROW_ROW.format(one) for one in ids))

    def passes(self, ids: Sequence[UUID], batch: int) -> float:
        """Seconds to change every row shaped like a job as its way does: three times, a commit a batch."""
        return self._passes((_SQL.floor_pass_1, _SQL.floor_pass_2, _SQL.floor_pass_3), ids, batch)

    def passes_narrow(self, ids: Sequence[UUID], batch: int) -> float:
        """Seconds to change every narrow row three times, a commit a batch."""
        return self._passes((_SQL.narrow_floor_pass,) * 3, ids, batch)

    def _copy(self, statement: str, rows: str) -> float:
        with self._connected() as connection:
            started = boottime()
            with connection.cursor() as cursor, cursor.copy(statement) as copy:
                copy.write(rows)
            took = boottime() - started
            connection.execute(_SQL.analyze_floor)
        return took

    def _passes(self, statements: Sequence[str], ids: Sequence[UUID], batch: int) -> float:
        batches = [list(ids[start : start + batch]) for start in range(0, len(ids), batch)]
        with self._connected() as connection:
            started = boottime()
            for statement in statements:
                for chosen in batches:
                    connection.execute(statement, {"ids": chosen})
            return boottime() - started

    def commits(self, seconds: float) -> int:
        """How many one-row commits one connection makes in that time."""
        made = 0
        with self._connected() as connection:
            until = boottime() + seconds
            while boottime() < until:
                connection.execute(_SQL.commit_floor)
                made += 1
        return made

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            with psycopg.connect(self._dsn, autocommit=True, options=_OPTIONS, connect_timeout=5) as made:
                yield made
        except psycopg.OperationalError as error:
            raise StoreUnavailable(f"PostgreSQL: {error}") from error


class Outcomes:
    """What the tables say of the benchmark's nodes and jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ready(self, nodes: int) -> bool:
        """True once so many nodes are live and one of them is in office."""
        found = self._one(_SQL.members)
        return bool(found.live == nodes and found.led)

    def live(self) -> int:
        """How many jobs have not ended."""
        return int(self._one(_SQL.live).count)

    def drained(self, handler: str) -> tuple[int, float]:
        """How many of the handler's jobs ended, and the seconds from the first claim to the last end."""
        found = self._one(_SQL.drained, {"handler": handler})
        return found.jobs, found.seconds

    def starts(self, ids: Sequence[UUID]) -> dict[UUID, tuple[float, float]]:
        """When each job was claimed and when its handler was started, in seconds since the epoch."""
        with self._database.transaction() as tx:
            rows = tx.rows(_SQL.starts, {"ids": list(ids)})
        return {row.id: (row.claimed, row.started) for row in rows}

    def counts(self) -> dict[str, int]:
        """Jobs by what the tables tell of them; all but `live` equal the jobs submitted if all is well."""
        return dict(self._one(_SQL.outcome)._asdict())

    def _one(self, query: str, params: dict[str, object] | None = None) -> Any:
        with self._database.transaction() as tx:
            return tx.one(query, params)
