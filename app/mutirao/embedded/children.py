"""A supervised child: started again when it fails, a little later each time."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

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
            settled = self.delay == 0 or now - self.started > SETTLED
            self.delay = FIRST_DELAY if settled else min(self.delay * 2, LONGEST_DELAY)
            self.due = now + self.delay
        return status

    def close(self) -> None:
        """Forgets the process."""
        if self.descriptor is not None:
            os.close(self.descriptor)
        self.process = self.descriptor = None
