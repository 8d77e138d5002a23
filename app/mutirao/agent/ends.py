"""How attempts ended, on the way to PostgreSQL: in batches, each kept until its answer is known."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from mutirao.domain.job import Outcome
from mutirao.errors import InvalidInput, OutcomeUnknown
from mutirao.store.execution import Ack, Acknowledged, Attempt, ExecutionStore
from mutirao.tail import Output

BATCH = 1000
BATCH_BYTES = 4 << 20
# What may wait in memory while PostgreSQL is away; beyond it, only the last lines of an output.
WAITING_OUTPUT = 16 << 20
LAST_LINES = 1024


class Ends:
    """Ends that others add and one thread acknowledges, each exactly once, whatever fails meanwhile."""

    def __init__(
        self, store: ExecutionStore, on_settled: Callable[[Sequence[Ack], Acknowledged], None]
    ) -> None:
        self._store = store
        self._on_settled = on_settled
        self._waiting: deque[Ack] = deque()
        self._output = 0
        self._lock = threading.Lock()
        self._batch: list[Ack] = []
        self._again = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._batch)

    def add(self, acks: Sequence[Ack]) -> None:
        """Takes over ends, from any thread."""
        with self._lock:
            for ack in acks:
                self._waiting.append(self._bounded(ack))

    def keys(self) -> set[Attempt]:
        """The attempts whose ends wait."""
        with self._lock:
            return {ack.key for ack in (*self._batch, *self._waiting)}

    def acknowledge(self) -> None:
        """Brings all of them home; raises what the store raises, and goes on from there the next time."""
        while self._batch or self._waiting:
            if not self._batch:
                self._again = False
                self._fill()
            try:
                answer = self._store.acknowledge(self._batch, again=self._again)
            except OutcomeUnknown:
                self._again = True
                raise
            except InvalidInput as error:
                self._set_apart(error)
                continue
            batch, self._batch = self._batch, []
            self._on_settled(batch, answer)

    def _bounded(self, ack: Ack) -> Ack:
        if ack.output is None:
            return ack
        if self._output + len(ack.output.kept) > WAITING_OUTPUT:
            cut = max(0, len(ack.output.kept) - LAST_LINES)
            ack = replace(ack, output=Output(ack.output.kept[cut:], ack.output.dropped + cut))
        self._output += _size(ack)
        return ack

    def _fill(self) -> None:
        with self._lock:
            weight = 0
            while self._waiting and len(self._batch) < BATCH and weight < BATCH_BYTES:
                ack = self._waiting.popleft()
                self._batch.append(ack)
                self._output -= _size(ack)
                weight += _size(ack) + len(ack.result or "") + len(ack.error or "")

    def _set_apart(self, error: InvalidInput) -> None:
        """One value that PostgreSQL cannot store must not hold up the others."""
        if len(self._batch) > 1:
            half = len(self._batch) // 2
            with self._lock:
                self._waiting.extendleft(reversed(self._batch[half:]))
                self._output += sum(_size(ack) for ack in self._batch[half:])
            self._batch = self._batch[:half]
            return
        told = {"type": "ResultRefused", "message": error.message.replace("\0", "\ufffd")}
        refused = replace(
            self._batch[0], outcome=Outcome.REFUSED, result=None, error=json.dumps(told), delay=None
        )
        self._batch = [refused]


def _size(ack: Ack) -> int:
    return len(ack.output.kept) if ack.output is not None else 0
