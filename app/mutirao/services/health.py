"""Which dependency works: PostgreSQL is required, Redis only makes things faster (I10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mutirao.errors import Unavailable
from mutirao.services.inquiry import Inquiry


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
    """Asks one dependency; a server that is frozen cannot hold up the answer."""

    def __init__(self, name: str, ping: Callable[[], str], *, required: bool, timeout: float = 2.5) -> None:
        self._name = name
        self._required = required
        self._inquiry = Inquiry(f"probe-{name}", ping, timeout)

    def result(self) -> Dependency:
        """The answer to a question asked after this call; a failure if none comes in time."""
        try:
            detail = self._inquiry.answer()
        except Unavailable as error:
            detail = error.message
        return Dependency(self._name, ok=not detail, required=self._required, detail=detail)

    def close(self) -> None:
        """Asks no more."""
        self._inquiry.close()


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
