"""A supervised child: started again when it fails, a little later each time."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mutirao.embedded.process import Process

FIRST_DELAY = 0.2
LONGEST_DELAY = 5.0
# Having lived this long, a child's next failure is a new story.
SETTLED = 10.0


@dataclass(slots=True)
class Child:
    """One process of the cluster and, when it failed, when it is to start again."""

    name: str
    launch: Callable[[], Process]
    restart: bool = True
    log: Path | None = None
    process: Process | None = None
    descriptor: int | None = None
    due: float | None = None
    started: float = 0.0
    delay: float = 0.0

    @property
    def pid(self) -> int | None:
        """The pid while it runs."""
        return self.process.pid if self.process is not None else None

    def start(self, now: float) -> None:
        """Starts the process."""
        self.process = self.launch()
        self.watch(now)

    def watch(self, now: float) -> None:
        """Opens `descriptor`, which becomes readable when the process ends."""
        assert self.process is not None
        self.descriptor = os.pidfd_open(self.process.pid)
        self.started, self.due = now, None

    def ended(self, now: float) -> int:
        """Notes its end and, if it failed, when to start it again; returns its exit status."""
        assert self.process is not None
        status = self.process.wait()
        self.close()
        if status != 0 and self.restart:
            self.postpone(now, settled=now - self.started > SETTLED)
        return status

    def postpone(self, now: float, *, settled: bool = False) -> None:
        """It is to start again a little later than the last time, or soon if it had `settled`."""
        first = settled or self.delay == 0
        self.delay = FIRST_DELAY if first else min(self.delay * 2, LONGEST_DELAY)
        self.due = now + self.delay

    def close(self) -> None:
        """Forgets the process."""
        if self.descriptor is not None:
            os.close(self.descriptor)
        self.process = self.descriptor = None
