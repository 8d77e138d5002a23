"""Whether what waits under a handler's name fits the contract this node has for it, before it is served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from mutirao.agent.judge import Judging
from mutirao.logs import get_logger
from mutirao.loop import boottime
from mutirao.store.contracts import ContractStore, WaitingJob
from mutirao.store.nodes import PublishedContract

log = get_logger(__name__)

# So many jobs of a handler are tried, and all handlers' within so many seconds.
MOST_JOBS = 1000
WITHIN = 5.0
_LONGEST = 1000


class Fitting:
    """Tries jobs against the handlers of this node, strictly, as its runners will."""

    def __init__(self, judge: Judging, store: ContractStore, published: Sequence[PublishedContract]) -> None:
        self._judge = judge
        self._store = store
        self._published = published

    def contracts(self) -> list[PublishedContract]:
        """The node's contracts, each refused by its `refusal` if something waits that it cannot accept.

        What a live node or this node's own past serves has been accepted once, and is not asked again.
        Raises StoreUnavailable.
        """
        refusals = self.refusals([contract.handler for contract in self._published])
        return [replace(contract, refusal=refusals.get(contract.handler)) for contract in self._published]

    def refusals(self, handlers: Sequence[str]) -> dict[str, str]:
        """Why handlers among these cannot be served: the first job found that does not fit."""
        in_service = self._store.in_service()
        new = [
            contract
            for contract in self._published
            if contract.handler in handlers and (contract.handler, contract.fingerprint) not in in_service
        ]
        if not new:
            return {}
        # Of equal fingerprints: what fitted one fits the other.
        fit = self._store.known(new)
        try:
            return self._first_misfits({contract.handler for contract in new}, fit)
        finally:
            self.rest()

    def _first_misfits(self, open_: set[str], fit: frozenset[int]) -> dict[str, str]:
        found: dict[str, str] = {}
        seen: Counter[str] = Counter()
        until = boottime() + WITHIN
        for page in self._store.waiting(open_, fit, among=False):
            for job in page:
                if job.handler not in open_:
                    continue
                seen[job.handler] += 1
                why = self.misfit(job)
                if why is not None:
                    found[job.handler] = why
                if why is not None or seen[job.handler] >= MOST_JOBS:
                    open_.discard(job.handler)
            if boottime() > until:
                log.warning("not_all_waiting_jobs_tried", handlers=sorted(open_), seconds=WITHIN)
                break
        return found

    def misfit(self, job: WaitingJob) -> str | None:
        """Why the job does not fit this node's handler, with its id and the field; None: it fits.

        Raises Unavailable when the handlers cannot be loaded any more.
        """
        fault = self._judge.fault(job.handler, job.payload)
        return None if fault is None else _clean(f"job {job.id}: payload{fault}")

    def rest(self) -> None:
        """Nothing more is tried for a while."""
        self._judge.rest()


def _clean(text: str) -> str:
    """As PostgreSQL takes it, whatever a handler's words contain."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()[:_LONGEST]
