"""Nodes in PostgreSQL: registration, beats, the settings that all of them share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from mutirao.errors import Superseded
from mutirao.store import sql
from mutirao.store.database import Database, Transaction
from mutirao.store.moving import moved_on

_SQL = sql.load("nodes.sql")
_ASSIGNMENT = sql.load("assignment.sql")


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The settings that both sides of a lease must agree on, in seconds; one row, no per-node files."""

    lease: float
    guard: float
    store_outage: float
    aging: float


@dataclass(frozen=True, slots=True)
class Identity:
    """What a node says of itself when it registers."""

    node: UUID
    name: str
    url: str
    slots: int
    version: str


@dataclass(frozen=True, slots=True)
class PublishedContract:
    """A handler's contract as the doors see it; schemas and defaults are JSON text.

    `refusal` says why the node does not serve it; None: it does.
    """

    handler: str
    fingerprint: str
    description: str
    payload_schema: str
    result_schema: str
    defaults: str
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class BeatRow:
    """A node's beat as PostgreSQL has it."""

    node: UUID
    status: str
    slots: int
    incarnation: int
    counter: int
    redis_on: bool
    capacity: int


@dataclass(frozen=True, slots=True)
class BeatReading:
    """One accepted-or-not beat with everyone's counters, read in the same transaction.

    `moved` is False when the node's row no longer took the beat; `server` changes with the PostgreSQL
    process that answered.
    """

    moved: bool
    server: str
    rows: Sequence[BeatRow]


class NodeStore:
    """The nodes' rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def cluster(self) -> ClusterSettings:
        """The shared settings."""
        with self._database.transaction() as tx:
            return ClusterSettings(*tx.one(_SQL.cluster))

    def counter(self, node: UUID) -> tuple[int, int] | None:
        """(incarnation, beat counter) of a node that has registered before."""
        with self._database.transaction() as tx:
            row = tx.row(_SQL.counter, {"node": node})
        return None if row is None else (row.incarnation, row.counter)

    def register(
        self, me: Identity, contracts: Sequence[PublishedContract], former: int | None
    ) -> tuple[int, int, int]:
        """Begins the incarnation after `former`, publishes its contracts and moves its former jobs on.

        Returns (incarnation, beat counter, jobs moved on). Raises Superseded when the node's row does not
        name `former` (None: no row yet), so that of two instances of one identity only one gets through.
        """
        about = {
            "node": me.node,
            "name": me.name,
            "url": me.url,
            "slots": me.slots,
            "version": me.version,
        }
        columns = {
            "handlers": [c.handler for c in contracts],
            "fingerprints": [c.fingerprint for c in contracts],
            "descriptions": [c.description for c in contracts],
            "payload_schemas": [c.payload_schema for c in contracts],
            "result_schemas": [c.result_schema for c in contracts],
            "defaults": [c.defaults for c in contracts],
            "refusals": [c.refusal for c in contracts],
        }

        def work(tx: Transaction) -> tuple[int, int, list[Any]]:
            found = tx.row(_SQL.node, about)
            if (None if found is None else found.incarnation) != former:
                raise Superseded(f"expected incarnation {former}, PostgreSQL has {found}")
            incarnation = tx.one(_SQL.register, about).incarnation
            if former is None and incarnation != 1:
                raise Superseded("another instance of this node registered at the same time")
            counter = tx.one(_SQL.start_beats, {**about, "incarnation": incarnation}).counter
            tx.send(_SQL.publish_contracts, columns)
            tx.send(_SQL.forget_node_contracts, about)
            tx.send(_SQL.serve_contracts, {**about, **columns})
            gone = tx.rows(_ASSIGNMENT.give_back_superseded, _over(me.node))
            return incarnation, counter, gone

        incarnation, counter, gone = self._database.run(work)
        return incarnation, counter, moved_on(gone)

    def beat(self, node: UUID, incarnation: int, counter: int, redis_on: bool, capacity: int) -> BeatReading:
        """Moves the node's counter and reads everyone's; the beat is accepted if this returns with moved."""
        params: Mapping[str, object] = {
            "node": node,
            "incarnation": incarnation,
            "counter": counter,
            "redis_on": redis_on,
            "capacity": capacity,
        }
        with self._database.transaction() as tx:
            beaten = tx.send(_SQL.beat, params)
            rows = tx.rows(_SQL.read_beats)
            moved = beaten.rowcount == 1
        server = rows[0].server if rows else ""
        return BeatReading(moved, server, [BeatRow(*row[:-1]) for row in rows])

    def drain(self, node: UUID, incarnation: int) -> None:
        """Says that the node wants nothing new."""
        params = {"node": node, "incarnation": incarnation}
        self._database.run(lambda tx: tx.execute(_SQL.drain, params))

    def leave(self, node: UUID, incarnation: int) -> int:
        """Ends the incarnation of a node that has stopped its runners; what it still held moves on.

        Returns the incarnation that the row has now.
        """
        params = {"node": node, "incarnation": incarnation, "status": "stopped"}

        def work(tx: Transaction) -> tuple[list[Any], int]:
            tx.send(_SQL.node, params)
            tx.send(_SQL.end_incarnation, params)
            gone = tx.rows(_ASSIGNMENT.give_back_superseded, _over(node))
            return gone, int(tx.one(_SQL.node, params).incarnation)

        gone, incarnation_now = self._database.run(work)
        moved_on(gone)
        return incarnation_now


def _over(node: UUID) -> dict[str, object]:
    return {"node": node, "actor": "agent", "term": None}
