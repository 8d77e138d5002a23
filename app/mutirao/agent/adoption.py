"""Keeps what a node serves in step with what waits: refused contracts looked at again, left jobs adopted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from mutirao.agent.beating import Member
from mutirao.agent.fitting import Fitting
from mutirao.logs import get_logger
from mutirao.loop import Loop, boottime
from mutirao.store.contracts import Adoption, ContractStore, Standing

log = get_logger(__name__)

EVERY = 2.0
# A long queue is gone through no more than a twentieth of the time.
SHARE = 20

Left = tuple[str, int]


class Adopting:
    """One loop of an incarnation.

    A contract that was refused is served once nothing waits any more that it cannot accept. Jobs under
    contracts that no live node serves are bound to this node's if they fit it; those that do not stay as
    they are, in the queue, and are said.
    """

    def __init__(
        self, member: Member, store: ContractStore, fitting: Fitting, *, on_change: Callable[[], None]
    ) -> None:
        self._member = member
        self._store = store
        self._fitting = fitting
        self._on_change = on_change
        self._said: dict[Left, int] = {}
        self._loop = Loop("adoption", self._run_once, retry=EVERY)

    def start(self) -> None:
        """Begins to look."""
        self._loop.start()

    def stop(self, timeout: float = 15.0) -> None:
        """Ends the loop after the jobs it looks at now; waits up to `timeout` for it."""
        self._loop.stop(timeout)

    def _run_once(self) -> float:
        started = boottime()
        standing = self._store.standing()
        self._look_again([one for one in standing if one.refusal is not None])
        self._adopt({one.handler: one for one in standing if one.refusal is None and one.unserved})
        return max(EVERY, SHARE * (boottime() - started))

    def _look_again(self, refused: Sequence[Standing]) -> None:
        if not refused:
            return
        found = self._fitting.refusals([one.handler for one in refused])
        for one in refused:
            refusal = found.get(one.handler)
            if refusal == one.refusal:
                continue
            self._store.rule(self._member.incarnation, one.handler, refusal)
            if refusal is None:
                log.info("contract_accepted", handler=one.handler)
                self._on_change()
            else:
                log.warning("contract_refused", handler=one.handler, why=refusal)

    def _adopt(self, served: Mapping[str, Standing]) -> None:
        left = [contract for one in served.values() for contract in one.unserved]
        misfits: Counter[Left] = Counter()
        examples: dict[Left, str] = {}
        adopted = 0
        for page in self._store.waiting(served.keys(), left, among=True):
            fits = []
            for job in page:
                why = self._fitting.misfit(job)
                if why is None:
                    fits.append(Adoption(job.id, job.contract, served[job.handler].contract))
                else:
                    misfits[job.handler, job.contract] += 1
                    examples.setdefault((job.handler, job.contract), why)
            if fits:
                adopted += self._store.adopt(self._member.incarnation, fits)
                self._on_change()
            if self._loop.stopping:
                return
        if adopted:
            log.info("jobs_adopted", jobs=adopted)
        self._say(misfits, examples)

    def _say(self, misfits: Mapping[Left, int], examples: Mapping[Left, str]) -> None:
        """Once, and again when there are more or fewer."""
        for left, jobs in misfits.items():
            if self._said.get(left) != jobs:
                handler, contract = left
                log.warning(
                    "jobs_fit_no_node", handler=handler, contract=contract, jobs=jobs, why=examples[left]
                )
        self._said = dict(misfits)
