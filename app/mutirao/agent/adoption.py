"""Keeps what a node serves in step with what waits: refused contracts looked at again, left jobs adopted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from mutirao.agent.beating import Member
from mutirao.agent.fitting import Fitting
from mutirao.logs import get_logger
from mutirao.loop import Loop, Timetable, boottime
from mutirao.store.contracts import Adoption, ContractStore, Standing

log = get_logger(__name__)

EVERY = 2.0
# A long queue is gone through no more than a twentieth of the time, within reason.
SHARE, AT_LEAST_EVERY = 20, 300.0

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
        self._timetable = Timetable()
        self._loop = Loop("adoption", self._run_once, retry=EVERY)

    def start(self) -> None:
        """Begins to look."""
        self._loop.start()

    def stop(self, timeout: float = 15.0) -> None:
        """Ends the loop after the jobs it looks at now; waits up to `timeout` for it."""
        self._loop.stop(timeout)

    def _run_once(self) -> float:
        standing = self._store.standing()
        refused = [one for one in standing if one.refusal is not None]
        self._sparingly("refused", partial(self._look_again, refused))
        left = {
            (one.handler, was): one.contract for one in standing if not one.refusal for was in one.unserved
        }
        for (handler, was), contract in left.items():
            self._sparingly(f"{handler} {was}", partial(self._adopt, handler, was, contract))
        self._said = {key: jobs for key, jobs in self._said.items() if key in left}
        return EVERY

    def _sparingly(self, what: str, look: Callable[[], None]) -> None:
        # Each by itself: many jobs that fit nowhere must not keep those of another contract waiting.
        if not self._loop.stopping and self._timetable.due(what, 0.0):
            started = boottime()
            try:
                look()
            finally:
                self._fitting.rest()
            self._timetable.postpone(what, min(SHARE * (boottime() - started), AT_LEAST_EVERY))

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

    def _adopt(self, handler: str, former: int, contract: int) -> None:
        misfits, example = 0, ""
        adopted = 0
        for page in self._store.waiting([handler], [former], among=True):
            fits = []
            for job in page:
                if self._loop.stopping:
                    return
                why = self._fitting.misfit(job)
                if why is None:
                    fits.append(Adoption(job.id, former, contract))
                else:
                    misfits, example = misfits + 1, example or why
            if fits:
                adopted += self._store.adopt(self._member.incarnation, fits)
                self._on_change()
            if self._loop.stopping:
                return
        if adopted:
            log.info("jobs_adopted", handler=handler, contract=former, jobs=adopted)
        # Once, and again when there are more or fewer.
        if misfits and self._said.get((handler, former)) != misfits:
            log.warning("jobs_fit_no_node", handler=handler, contract=former, jobs=misfits, why=example)
        self._said[handler, former] = misfits
