"""What one node asks and says about contracts: which it serves, which jobs wait under others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from mutirao.store import sql
from mutirao.store.database import Database, Transaction
from mutirao.store.nodes import PublishedContract

_SQL = sql.load("contracts.sql")
_NODES = sql.load("nodes.sql")
_LOWEST = UUID(int=0)
# Looked at by one statement, which thus takes a few milliseconds however long the queue is.
STRETCH = 20_000
PAGE = 200
# Of payloads as they are stored, in one page: each may be a mebibyte.
BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that no node has, with the contract it was last found to fit (0: none) and its payload's JSON."""

    id: UUID
    handler: str
    contract: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Standing:
    """One handler of this node: served, or refused for a reason.

    `unserved` are the other contracts of its name that jobs wait under and nobody serves.
    """

    handler: str
    contract: int
    refusal: str | None
    unserved: frozenset[int]


@dataclass(frozen=True, slots=True)
class Adoption:
    """A job that was found to fit another contract than its former one."""

    job: UUID
    former: int
    contract: int


class ContractStore:
    """The contracts as they concern one node."""

    def __init__(self, database: Database, node: UUID) -> None:
        self._database = database
        self._node = node

    def in_service(self) -> frozenset[tuple[str, str]]:
        """(handler, fingerprint) of what a live node, or this node's last incarnation, serves."""
        with self._database.transaction() as tx:
            rows = tx.rows(_SQL.in_service, {"node": self._node})
        return frozenset((row.handler, row.fingerprint) for row in rows)

    def known(self, contracts: Sequence[PublishedContract]) -> frozenset[int]:
        """The ids of those of the contracts that were published before."""
        params = {
            "handlers": [contract.handler for contract in contracts],
            "fingerprints": [contract.fingerprint for contract in contracts],
        }
        with self._database.transaction() as tx:
            return frozenset(row.id for row in tx.rows(_SQL.known, params))

    def standing(self) -> list[Standing]:
        """The node's handlers by name."""
        with self._database.transaction() as tx:
            rows = tx.rows(_SQL.standing, {"node": self._node})
        return [Standing(row.handler, row.contract, row.refusal, frozenset(row.unserved)) for row in rows]

    def waiting(
        self, handlers: Collection[str], contracts: Collection[int], *, among: bool
    ) -> Iterator[list[WaitingJob]]:
        """What no node has under these handlers' names, some at a time: each contract's queued jobs first.

        Of those whose contract is one of `contracts` (`among`), or none of them. `handlers` may shrink
        meanwhile. A job that moves on meanwhile may be missed or come twice. Where a long stretch has
        nothing of the kind an empty page says so, for whoever has no time to go on.
        """
        for contract in contracts if among else self._others(handlers, contracts):
            yield from self._pages(_SQL.queued_stretch, {"contract": contract}, handlers)
        scheduled = {"contracts": list(contracts), "among": among}
        yield from self._pages(_SQL.scheduled_stretch, scheduled, handlers)

    def _others(self, handlers: Collection[str], contracts: Collection[int]) -> list[int]:
        params = {"handlers": list(handlers), "contracts": list(contracts)}
        with self._database.transaction() as tx:
            return [row.id for row in tx.rows(_SQL.others, params)]

    def _pages(
        self, statement: str, which: Mapping[str, object], handlers: Collection[str]
    ) -> Iterator[list[WaitingJob]]:
        wanted = {**which, "stretch": STRETCH, "limit": PAGE, "bytes": BYTES}
        place: dict[str, object] | None = {"place": "-infinity", "id": _LOWEST}
        while place is not None and handlers:
            with self._database.transaction() as tx:
                rows = tx.rows(statement, {**wanted, **place, "handlers": list(handlers)})
            found = [row for row in rows if row.handler is not None]
            place = _onwards(found, rows[len(found) :])
            if found or place is not None:
                yield [WaitingJob(r.id, r.handler, r.contract, r.payload.encode()) for r in found]

    def rule(self, incarnation: int, handler: str, refusal: str | None) -> None:
        """From now on the incarnation serves the handler (None), or does not, for that reason.

        An incarnation never stops serving what it serves: whoever assigns jobs relies on it.
        """
        me = {"node": self._node, "incarnation": incarnation}

        def work(tx: Transaction) -> None:
            tx.send(_NODES.hold_node, me)
            tx.send(_SQL.rule, {**me, "handler": handler, "refusal": refusal})

        self._database.run(work)

    def adopt(self, incarnation: int, adoptions: Sequence[Adoption]) -> int:
        """Binds the jobs to their new contracts where they still wait under the former; returns how many."""
        me = {"node": self._node, "incarnation": incarnation}
        params = {
            **me,
            "ids": [item.job for item in adoptions],
            "formers": [item.former for item in adoptions],
            "contracts": [item.contract for item in adoptions],
        }

        def work(tx: Transaction) -> int:
            tx.send(_NODES.hold_node, me)
            return int(tx.one(_SQL.adopt, params).adopted)

        return self._database.run(work)


def _onwards(found: list[Any], end: list[Any]) -> dict[str, object] | None:
    """After the last of a page that was too full, else after the whole stretch; None: nothing lies beyond."""
    full = found and (len(found) == PAGE or len(found) < found[0].wanted)
    last = found[-1:] if full else end
    return {"place": last[0].place, "id": last[0].id} if last else None
