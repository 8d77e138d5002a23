"""The coordinator's writes: every one of them behind the fence (I3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from mutirao.domain.placement import Assignment, Candidate, Room
from mutirao.failpoints import armed, failpoint
from mutirao.store import sql
from mutirao.store.database import Database, TermHeld, Transaction
from mutirao.store.moving import moved_on

_SQL = sql.load("assignment.sql")
_NODES = sql.load("nodes.sql")
_TERM = sql.load("term.sql")


@dataclass(frozen=True, slots=True)
class Survey:
    """What a round of planning starts from."""

    rooms: Sequence[Room]
    candidates: Sequence[Candidate]

    @property
    def longest(self) -> int:
        """How many candidates are of the contract that most of them are of."""
        return max(Counter(one.contract for one in self.candidates).values(), default=0)


class AssignmentStore:
    """What a coordinator in `office` may do; everything raises Fenced once the office is over."""

    def __init__(self, database: Database, office: TermHeld) -> None:
        self._database = database
        self._office = office

    def survey(self, limit: int, stale: Collection[UUID] = ()) -> Survey:
        """The live nodes but the stale, what they hold, and the best-ranked jobs that they have room for.

        Of each contract up to `limit`, and no more than its nodes have room for: what cannot be placed now
        hides nothing that can (I7).
        """
        with self._database.transaction() as tx:
            rooms = [room for room in map(_room, tx.rows(_SQL.rooms)) if room.node not in stale]
            lanes: Counter[int] = Counter()
            for room in rooms:
                lanes.update(dict.fromkeys(room.contracts, room.free))
            lanes = +lanes
            if not lanes:
                return Survey(rooms, [])
            params = {"contracts": list(lanes), "rooms": list(lanes.values()), "limit": limit}
            return Survey(rooms, [Candidate(*row) for row in tx.rows(_SQL.candidates, params)])

    def assign(self, plan: Sequence[Assignment]) -> dict[UUID, int]:
        """Carries the plan out as far as it still holds; returns how many jobs each node was given."""
        params = {
            "jobs": [item.job for item in plan],
            "nodes": [item.node for item in plan],
            "incarnations": [item.incarnation for item in plan],
            "contracts": [item.contract for item in plan],
            "term": self._office.term,
        }

        def work(tx: Transaction) -> dict[UUID, int]:
            tx.send(_SQL.hold_nodes, {"nodes": sorted({item.node for item in plan})})
            given = tx.send(_SQL.assign, params)
            if armed("assign.inside"):
                tx.sync()
                failpoint("assign.inside")
            return {row.node: row.given for row in given.fetchall()}

        return self._database.run(work, office=self._office)

    def promote_due(self, limit: int = 1000) -> int:
        """Queues up to `limit` jobs whose time has come; returns how many."""
        params = {"limit": limit, "term": self._office.term}
        row = self._database.run(lambda tx: tx.one(_SQL.promote_due, params), office=self._office)
        return int(row.queued)

    def next_due(self) -> float | None:
        """Seconds until the next scheduled job is due, None when none is scheduled."""
        with self._database.transaction() as tx:
            seconds: float | None = tx.one(_SQL.next_due).seconds
        return seconds

    def take_back(self, nodes: Sequence[UUID], limit: int = 5000) -> int:
        """Returns what these nodes have not started to the queue; returns how many jobs."""
        params = {
            "nodes": list(nodes),
            "incarnation": None,
            "limit": limit,
            "actor": "coordinator",
            "term": self._office.term,
        }
        row = self._database.run(lambda tx: tx.one(_SQL.take_back, params), office=self._office)
        return int(row.taken)

    def sweep(self) -> int:
        """Moves on every job that belongs to an incarnation that is over; returns how many."""
        params = {"node": None, "actor": "coordinator", "term": self._office.term}
        return moved_on(
            self._database.run(lambda tx: tx.rows(_SQL.give_back_superseded, params), office=self._office)
        )

    def declare_lost(self, node: UUID, incarnation: int, counter: int, redis_on: bool) -> int | None:
        """Ends a node's incarnation and moves its jobs on; None if it is no longer as it was judged."""
        judged = {"node": node, "incarnation": incarnation, "counter": counter, "redis_on": redis_on}

        def work(tx: Transaction) -> list[Any] | None:
            if tx.row(_NODES.hold_judged, judged) is None:
                return None
            tx.send(_NODES.end_incarnation, {**judged, "status": "lost"})
            mine = {"node": node, "actor": "coordinator", "term": self._office.term}
            return tx.rows(_SQL.give_back_superseded, mine)

        rows = self._database.run(work, office=self._office)
        return None if rows is None else moved_on(rows)

    def count_states(self) -> None:
        """Refreshes the counts of jobs by state, of dead letters, and of jobs that nobody can serve."""

        def work(tx: Transaction) -> None:
            tx.send(_TERM.count_dead)
            tx.send(_TERM.scan_freely)
            # Last: what it writes into `unserved` must not be waited for by who notes the same.
            tx.send(_TERM.count_states)

        self._database.run(work, synchronous=False)

    def note_unserved(self) -> None:
        """Has those who could adopt them look at queued jobs that nobody serves; waits for no count."""
        self._database.run(lambda tx: tx.execute(_TERM.note_unserved), synchronous=False)

    def ensure_partitions(self) -> int:
        """Makes the partitions of the coming days; returns how many were missing."""
        row = self._database.run(lambda tx: tx.one(_TERM.ensure_partitions))
        return int(row.made)


def _room(row: Any) -> Room:
    node, incarnation, slots, capacity, load, contracts = row
    return Room(node, incarnation, slots, capacity, load, frozenset(contracts))
