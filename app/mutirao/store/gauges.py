"""What a scrape asks of PostgreSQL: small tables and roll-ups alone, whatever the number of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mutirao.domain.job import LIVE, State
from mutirao.store import sql
from mutirao.store.database import Database

_SQL = sql.load("gauges.sql")
STATUSES = ("live", "draining", "lost", "stopped")
_BEATING = ("live", "draining")


@dataclass(frozen=True, slots=True)
class ClusterGauges:
    """The cluster in numbers; ages in seconds, None where there is nothing that has one."""

    jobs: Mapping[str, int]
    dead_letters: int
    unserved: int
    count_age: float | None
    nodes: Mapping[str, int]
    oldest_beat: float | None


class Gauges:
    """The read model of /metrics."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self) -> ClusterGauges:
        """One transaction's view; raises StoreUnavailable."""
        with self._database.transaction() as tx:
            counted, known, waiting = (tx.send(q) for q in (_SQL.counts, _SQL.nodes, _SQL.unserved))
            counts = {row.state: row for row in counted.fetchall()}
            nodes = {row.status: row for row in known.fetchall()}
            unserved = waiting.fetchall()[0].jobs
        beats = [nodes[name].oldest_beat for name in _BEATING if name in nodes]
        return ClusterGauges(
            jobs={state: counts[state].count for state in sorted(LIVE) if state in counts},
            dead_letters=counts[State.DEAD].count if State.DEAD in counts else 0,
            unserved=unserved,
            count_age=max((row.age for row in counts.values()), default=None),
            nodes={name: nodes[name].nodes if name in nodes else 0 for name in STATUSES},
            oldest_beat=max((beat for beat in beats if beat is not None), default=None),
        )
