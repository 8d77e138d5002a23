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
_OPTIONS = "-c search_path=mutirao -c synchronous_commit=on -c jit=off"


class Floor:
    """Plain statements on a table of its own; every commit is durable."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    @contextmanager
    def table(self) -> Iterator[None]:
        """The table exists inside, and is gone afterwards."""
        with self._connected() as connection:
            connection.execute(_SQL.create_floor)
        try:
            yield
        finally:
            with self._connected() as connection:
                connection.execute(_SQL.drop_floor)

    def copy(self, ids: Sequence[UUID]) -> float:
        """Seconds to COPY one row for each id, one commit."""
        rows = "".join(f'{one}\t0\t{{"message": "x"}}\n' for one in ids)
        with self._connected() as connection:
            started = boottime()
            with connection.cursor() as cursor, cursor.copy(_SQL.copy_floor) as copy:
                copy.write(rows)
            took = boottime() - started
            connection.execute(_SQL.analyze_floor)
        return took

    def passes(self, ids: Sequence[UUID], *, passes: int, batch: int) -> float:
        """Seconds to update every row `passes` times, one commit for each batch of ids."""
        batches = [list(ids[start : start + batch]) for start in range(0, len(ids), batch)]
        with self._connected() as connection:
            started = boottime()
            for number in range(1, passes + 1):
                for chosen in batches:
                    connection.execute(_SQL.update_floor, {"state": number, "ids": chosen})
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
