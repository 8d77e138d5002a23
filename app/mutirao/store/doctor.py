"""What `mutirao doctor` asks PostgreSQL: facts, judged elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg

from mutirao.store import sql
from mutirao.store.database import Database

_SQL = sql.load("doctor.sql")
_CONNECT_WITHIN = 5


@dataclass(frozen=True, slots=True)
class Server:
    """A server as it describes itself; times in seconds. `ahead` is its clock against this machine's."""

    version: int
    encoding: str
    read_only: bool
    durable: bool
    autovacuum: bool
    idle_session_timeout: float
    connections: int
    sessions: int
    oldest_transaction: float
    revision: str | None
    ahead: float


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node as PostgreSQL has it; `beat_age` is None where it has no beat."""

    name: str
    incarnation: int
    status: str
    version: str
    redis_on: bool | None
    beat_age: float | None


@dataclass(frozen=True, slots=True)
class TermState:
    """The term; `holder` names the node in office, None where nobody in service holds it."""

    term: int
    beat: int
    holder: str | None


def why_not(dsn: str) -> str:
    """Why PostgreSQL takes no connection, in its own words; empty when it does."""
    try:
        psycopg.connect(dsn, connect_timeout=_CONNECT_WITHIN).close()
    except psycopg.ProgrammingError:
        return "the `postgres` setting is not a usable DSN"  # its own words would quote the password
    except psycopg.Error as error:
        return str(error).strip().splitlines()[0] or type(error).__name__
    return ""


class Examination:
    """Reads what is there; raises StoreUnavailable, changes nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def server(self) -> Server:
        """The server; works on an empty database, too."""
        began = time.time()
        row = self._one(_SQL.server)
        here = (began + time.time()) / 2
        facts = row._asdict()
        migrated, clock = facts.pop("migrated"), facts.pop("clock")
        if isinstance(facts["encoding"], bytes):  # the driver decodes nothing where the server does not
            facts["encoding"] = facts["encoding"].decode()
        revision = self._one(_SQL.revision).revision if migrated else None
        return Server(**facts, revision=revision, ahead=clock - here)

    def cluster_id(self) -> UUID:
        """Which cluster this database is."""
        found: UUID = self._one(_SQL.cluster_id).id
        return found

    def node(self, node: UUID) -> NodeState | None:
        """The node's row, None where it never registered."""
        rows = self._rows(_SQL.node, {"node": node})
        return NodeState(**rows[0]._asdict()) if rows else None

    def namesakes(self, node: UUID, name: str) -> int:
        """How many other nodes in service have this name."""
        return int(self._rows(_SQL.namesakes, {"node": node, "name": name})[0].count)

    def term(self) -> TermState:
        """The term as it stands."""
        row = self._one(_SQL.term)
        return TermState(row.term, row.beat, row.name)

    def refusals(self, node: UUID) -> list[tuple[str, str]]:
        """(handler, why) of what the node has and does not serve."""
        return [(row.handler, row.refusal) for row in self._rows(_SQL.refusals, {"node": node})]

    def beating(self) -> list[tuple[UUID, str]]:
        """(id, name) of every node whose beats should be found in Redis."""
        return [(row.id, row.name) for row in self._rows(_SQL.beating)]

    def _one(self, query: str) -> Any:
        return self._rows(query)[0]

    def _rows(self, query: str, params: Mapping[str, object] | None = None) -> Sequence[Any]:
        with self._database.transaction() as tx:
            return tx.rows(query, params)
