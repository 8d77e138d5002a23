"""Decides from the tables alone whether a cluster kept its invariants; safe while the cluster works."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import psycopg
from psycopg import sql

from mutirao.domain.job import TRANSITIONS, State

LIMIT = 20
BLOCK = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule; `rule` starts with the invariant's number."""

    rule: str
    job: UUID | None
    detail: str


@dataclass(frozen=True, slots=True)
class Expected:
    """How a job must have ended, as its handler decided; `outcomes` None leaves the attempts open."""

    state: State
    outcomes: tuple[str, ...] | None = None


def blocks() -> dict[str, str]:
    """The named blocks of checker.sql, in order."""
    text = Path(__file__).with_name("checker.sql").read_text()
    return {name: body.strip().rstrip(";") for name, body in BLOCK.findall(text)}


def check(
    dsn: str, acknowledged: Iterable[UUID] = (), expected: Mapping[UUID, Expected] | None = None
) -> list[Violation]:
    """All violations in one snapshot, at most LIMIT for each rule; empty means that every rule holds."""
    with psycopg.connect(dsn, application_name="checker") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SET search_path = mutirao")
        connection.commit()
        connection.execute("SET LOCAL work_mem = '64MB'")
        return list(_check(connection, {*acknowledged, *(expected or {})}, expected or {}))


def _check(
    connection: psycopg.Connection, acknowledged: set[UUID], expected: Mapping[UUID, Expected]
) -> Iterator[Violation]:
    _fill(connection, "acknowledged (id uuid)", [(job,) for job in acknowledged])
    _fill(connection, "legal (before text, after text)", list(_legal()))
    rules = blocks()
    for name in [name for name in rules if name.startswith("prepare_")]:
        connection.execute(rules.pop(name).encode())
    for name, body in rules.items():
        query = f"SELECT job_id, detail FROM ({body}) violations LIMIT {LIMIT}"
        for job, detail in connection.execute(query.encode()):
            yield Violation(name, job, detail)
    yield from _unexpected(connection, expected)


def _unexpected(connection: psycopg.Connection, expected: Mapping[UUID, Expected]) -> Iterator[Violation]:
    """Jobs that ended otherwise than their handlers decided."""
    found = 0
    query = b"SELECT p.id, p.state::text, t.outcomes FROM present p LEFT JOIN tries t ON t.job_id = p.id"
    for job, state, outcomes in connection.execute(query):
        wanted = expected.get(job)
        if wanted is None or found >= LIMIT:
            continue
        if state != wanted.state or (
            wanted.outcomes is not None and tuple(outcomes or ()) != wanted.outcomes
        ):
            found += 1
            yield Violation(
                "outcome_differs",
                job,
                f"{state} after {outcomes}, not {wanted.state} after {wanted.outcomes}",
            )


def _legal() -> Iterator[tuple[str | None, str]]:
    return ((before, after) for before, afters in TRANSITIONS.items() for after in afters)


def _fill(connection: psycopg.Connection, table: str, rows: Iterable[tuple[object, ...]]) -> None:
    connection.execute(f"CREATE TEMP TABLE {table} ON COMMIT DROP".encode())
    with connection.cursor().copy(
        sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(table.split(maxsplit=1)[0]))
    ) as copy:
        for row in rows:
            copy.write_row(row)
