"""What has been handed to the runners and not ended yet, and the verdict on what is to be killed."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from uuid import UUID

from mutirao.agent.frames import Finished, Report, Task
from mutirao.domain.job import Outcome
from mutirao.tail import Output

_SECOND = 1_000_000_000


class Ledger:
    """Tasks by sequence; a sequence is never used twice in a node's life.

    `graces` says for how many seconds which handler may go on after a cancel.
    """

    def __init__(self, graces: Mapping[str, float]) -> None:
        self.tasks: dict[int, Task] = {}
        self.verdicts: dict[int, Outcome] = {}
        self.next = 1
        self._graces = graces
        self._spared: dict[int, int] = {}  # until when

    def admit(self, task: Task) -> None:
        """Enters a task under the sequence `next`."""
        self.tasks[self.next] = task
        self.next += 1

    def find(self, job_id: UUID, attempt: int) -> int | None:
        """The sequence of that attempt, if it is here."""
        for sequence, task in self.tasks.items():
            if task.attempt == attempt and task.job_id == job_id:
                return sequence
        return None

    def strike(self, sequence: int) -> Task | None:
        """Removes a task."""
        self.verdicts.pop(sequence, None)
        self._spared.pop(sequence, None)
        return self.tasks.pop(sequence, None)

    def forget(self) -> None:
        """Removes every task."""
        self.tasks.clear()
        self.verdicts.clear()
        self._spared.clear()

    def spares(self, sequence: int, now: int) -> bool:
        """Whether a verdict can still wait (boottime nanoseconds); a grace begins with the first look."""
        if self.verdicts[sequence] is not Outcome.CANCELLED:
            return False
        grace = self._graces.get(self.tasks[sequence].handler, 0.0)
        return grace > 0 and now < self._spared.setdefault(sequence, now + int(grace * _SECOND))

    def settle(self, report: Report, output: Output | None) -> Finished | None:
        """The end that a runner reports; a verdict that came too late is dropped, unless the handler knew."""
        told = report.sequence in self._spared
        task = self.strike(report.sequence)
        if task is None:
            return None
        return Finished(
            task.job_id,
            task.attempt,
            Outcome.CANCELLED if told else report.outcome,
            report.result,
            report.error,
            report.retry_after,
            report.discard,
            report.seconds,
            report.started,
            output,
        )

    def end(
        self,
        sequence: int,
        status: int = 0,
        started: float = 0.0,
        now: float = 0.0,
        output: Output | None = None,
    ) -> Finished | None:
        """The end of a task whose runner is dead, or that never started: by its verdict, if there is one."""
        outcome = self.verdicts.get(sequence, Outcome.RUNNER_DIED)
        task = self.strike(sequence)
        if task is None:
            return None
        error = {"type": _type(outcome), "message": _message(outcome, task, status), "traceback": ""}
        return Finished(
            task.job_id,
            task.attempt,
            outcome,
            error=json.dumps(error).encode(),
            seconds=max(0.0, now - started) if started else 0.0,
            started=started,
            output=output,
        )


def _type(outcome: Outcome) -> str:
    return "".join(part.title() for part in outcome.split("_"))


def _message(outcome: Outcome, task: Task, status: int) -> str:
    if outcome is Outcome.TIMED_OUT:
        return f"killed after its {task.timeout:g} seconds"
    if outcome is not Outcome.RUNNER_DIED:
        return f"killed: {outcome}"
    if status < 0:
        return f"the runner was killed by {signal.Signals(-status).name}"
    return f"the runner exited with status {status}"
