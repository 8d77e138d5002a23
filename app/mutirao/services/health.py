"""Which dependency works: PostgreSQL is required, Redis only makes things faster (I10)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from mutirao.errors import Unavailable
from mutirao.loop import Loop, boottime

_IDLE = 3600.0


@dataclass(frozen=True, slots=True)
class Dependency:
    """One dependency's state; `detail` says what is wrong with it."""

    name: str
    ok: bool
    required: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Readiness:
    """What a node's dependencies are like now."""

    dependencies: list[Dependency]

    @property
    def ready(self) -> bool:
        """True when every required dependency works."""
        return all(one.ok for one in self.dependencies if one.required)

    @property
    def status(self) -> str:
        """`ready`, `degraded` (something optional is away) or `unavailable`."""
        if not self.ready:
            return "unavailable"
        return "ready" if all(one.ok for one in self.dependencies) else "degraded"


class Probe:
    """Asks one dependency from a thread of its own: a server that is frozen cannot hold up the answer."""

    def __init__(self, name: str, ping: Callable[[], str], *, required: bool, timeout: float = 2.5) -> None:
        self._name = name
        self._ping = ping
        self._required = required
        self._timeout = timeout
        self._answered = threading.Condition()
        self._asked_at = float("-inf")
        self._detail = ""
        self._wanted = False
        self._loop = Loop(f"probe-{name}", self._run_once)
        self._loop.start()

    def result(self) -> Dependency:
        """The answer to a question asked after this call; a failure if none comes in time."""
        since = boottime()
        with self._answered:
            self._wanted = True
            self._loop.wake()
            in_time = self._answered.wait_for(lambda: self._asked_at >= since, self._timeout)
            detail = self._detail if in_time else f"did not answer within {self._timeout:g} s"
        return Dependency(self._name, ok=not detail, required=self._required, detail=detail)

    def close(self) -> None:
        """Ends the thread, or leaves it to the process's end when it is stuck."""
        self._loop.stop(timeout=0.5)

    def _run_once(self) -> float:
        with self._answered:
            if not self._wanted:
                return _IDLE
            self._wanted = False
        asked_at = boottime()
        try:
            detail = self._ping()
        except Unavailable as error:
            detail = error.message
        with self._answered:
            self._asked_at, self._detail = asked_at, detail
            self._answered.notify_all()
        return 0.0


class Health:
    """The readiness of this node."""

    def __init__(self, *probes: Probe) -> None:
        self._probes = probes

    def readiness(self) -> Readiness:
        """Bounded in time, and never raises for a dependency's trouble."""
        return Readiness([probe.result() for probe in self._probes])

    def close(self) -> None:
        """Ends the probes."""
        for probe in self._probes:
            probe.close()
