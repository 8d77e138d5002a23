"""The term row: who may speak for the cluster (DESIGN §5 Election, Fence)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from mutirao.errors import Fenced, OutcomeUnknown, StoreUnavailable
from mutirao.logs import get_logger
from mutirao.store import sql
from mutirao.store.database import Database, TermHeld, Transaction

log = get_logger(__name__)
_SQL = sql.load("term.sql")
_FLUSH = sql.load("jobs.sql").flush
_TRIES = 5


@dataclass(frozen=True, slots=True)
class TermRow:
    """The term as read: its number, its holder and the holder's beat."""

    term: int
    holder: str
    beat: int


class TermStore:
    """Reads, takes and keeps the term."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self) -> TermRow:
        """The term as it stands."""
        with self._database.transaction() as tx:
            return TermRow(*tx.one(_SQL.read))

    def take(self, seen: TermRow, holder: str, node: UUID, *, if_unmoved: bool = False) -> TermHeld | None:
        """Takes the term after `seen` for `holder`; None when somebody else came first.

        With `if_unmoved` the beat is compared as well. A holder frozen inside a transaction is waited for
        a second at a time, then its sessions are ended. Raises StoreUnavailable.
        """
        params = {
            "term": seen.term,
            "holder": seen.holder,
            "beat": seen.beat if if_unmoved else None,
            "new_holder": holder,
            "node": node,
        }

        def work(tx: Transaction) -> int | None:
            tx.send(_SQL.limit_wait, params)
            row = tx.row(_SQL.take, params)
            return None if row is None else row.term

        for _ in range(_TRIES):
            try:
                term = self._database.run(work)
                return None if term is None else TermHeld(term, holder)
            except OutcomeUnknown:
                return self._taken(holder)
            except StoreUnavailable as error:
                log.info("term_is_locked", holder=seen.holder, error=error.message)
                self._end_sessions(seen.holder)
        raise StoreUnavailable("the term row stays locked")

    def _taken(self, holder: str) -> TermHeld | None:
        """What an unknown take came to; a holder's nonce is used once, so finding it is proof."""

        def work(tx: Transaction) -> TermHeld | None:
            row = tx.one(_SQL.read)
            tx.send(_FLUSH)
            return TermHeld(row.term, holder) if row.holder == holder else None

        return self._database.run(work)

    def _end_sessions(self, holder: str) -> None:
        if holder:
            with self._database.transaction() as tx:
                tx.rows(_SQL.end_sessions, {"holder": holder})

    def beat(self, office: TermHeld, elapsed: float) -> None:
        """Shows that the office is held; raises Fenced when it is not.

        `elapsed` is the boottime (seconds) from the start of the office's last committed beat to this one's.
        """
        params = {"term": office.term, "holder": office.holder, "elapsed": elapsed}

        def work(tx: Transaction) -> None:
            if tx.execute(_SQL.beat, params) != 1:
                raise Fenced(f"term {office.term} of {office.holder} is over")

        self._database.run(work, office=office)
