"""A load generator over HTTP that remembers what was acknowledged and how each job must end."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import httpx

from mutirao.domain.job import State
from mutirao.loop import boottime
from tests.support.checker import Expected

Job = dict[str, Any]
BATCH = 1000


@dataclass
class Ledger:
    """Every id that was acknowledged, and the end its handler decides (None: whatever happens to it)."""

    jobs: dict[UUID, Expected | None] = field(default_factory=dict)

    def expected(self) -> dict[UUID, Expected]:
        """The jobs whose end is decided."""
        return {job: expected for job, expected in self.jobs.items() if expected is not None}


def mix(count: int, *, calm: bool) -> Iterator[tuple[Job, Expected]]:
    """Succeeding, failing-then-succeeding and always failing jobs; `calm`: no attempt is lost with a node."""
    quick = {"base": 0.05, "cap": 0.2}
    for number in range(count):
        # Attempts lost with a node count as well, so that only a calm run decides how many there are.
        spare = 0 if calm else 10
        match number % 10:
            case 8:
                job = {"handler": "fail", "payload": {"times": 1}, "max_retries": 1 + spare, "backoff": quick}
                expected = Expected(State.SUCCEEDED, ("failed", "succeeded") if calm else None)
            case 9:
                retries = 1 + number // 10 % 2
                job = {"handler": "fail", "payload": {}, "max_retries": retries, "backoff": quick}
                expected = Expected(State.DEAD, ("failed",) * (retries + 1) if calm else None)
            case _:
                job = {"handler": "echo", "payload": {"message": f"job {number}"}, "max_retries": spare}
                expected = Expected(State.SUCCEEDED, ("succeeded",) if calm else None)
        yield job, expected


class Submitter:
    """Submits batches to any node; an answer that did not come is asked for again under the same keys."""

    def __init__(self, urls: Sequence[str], ledger: Ledger) -> None:
        self._urls = itertools.cycle(urls)
        self._ledger = ledger
        self._client = httpx.Client(timeout=15.0)

    def submit(self, work: Sequence[tuple[Job, Expected | None]], timeout: float = 60.0) -> list[UUID]:
        """The acknowledged ids, in order; an error if no node has acknowledged them within `timeout`."""
        jobs = [{"idempotency_key": str(uuid4()), **job} for job, _ in work]
        deadline = boottime() + timeout
        while True:
            try:
                answer = self._client.post(f"{next(self._urls)}/api/v1/jobs/batch", json={"jobs": jobs})
                trouble = "" if answer.is_success else f"{answer.status_code} {answer.text[:500]}"
                assert answer.is_success or answer.is_server_error, trouble
            except httpx.TransportError as error:
                trouble = repr(error)
            if not trouble:
                ids = [UUID(job["id"]) for job in answer.json()["jobs"]]
                assert len(ids) == len(jobs)
                self._ledger.jobs.update(zip(ids, (expected for _, expected in work), strict=True))
                return ids
            assert boottime() < deadline, f"not acknowledged within {timeout:g} s: {trouble}"
            threading.Event().wait(0.2)

    def one(self, handler: str, payload: object, **fields: object) -> UUID:
        """Submits one job whose end is left open."""
        return self.submit([({"handler": handler, "payload": payload, **fields}, None)])[0]

    def many(self, work: Sequence[tuple[Job, Expected | None]], threads: int = 4) -> None:
        """Submits everything in batches from several threads at once."""
        batches = [work[start : start + BATCH] for start in range(0, len(work), BATCH)]
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(self.submit, batches):
                pass


class Pressure:
    """Submits a mix at a steady pace while the block runs; whatever went wrong is raised at its end."""

    def __init__(self, submitter: Submitter, per_second: int) -> None:
        self._submitter = submitter
        self._batch = max(1, per_second // 5)
        self._stop = threading.Event()
        self._trouble: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Pressure:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(90)
        if self._trouble:
            raise self._trouble[0]

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.2):
                self._submitter.submit(list(mix(self._batch, calm=False)))
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            self._trouble.append(error)
