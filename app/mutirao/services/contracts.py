"""The door's copy of the published contracts: validates payloads without the handler's code."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mutirao.domain.job import Backoff
from mutirao.domain.views import ContractView
from mutirao.errors import InvalidInput, Unavailable
from mutirao.explaining import Schema
from mutirao.loop import boottime
from mutirao.services.requests import FieldError, Refused

_MAX_AGE = 2.0
_MIN_AGE = 0.2


@dataclass(frozen=True)
class Door:
    """What a job of one handler must satisfy, and what it gets where its caller is silent."""

    contract: int
    handler: str
    queue: str
    priority: int
    max_retries: int
    timeout: float
    backoff: Backoff
    schema: Schema = field(repr=False)

    def check(self, payload: object, path: str) -> None:
        """Refused, with every wrong field below `path`, unless the payload fits the handler's schema."""
        faults = self.schema.faults(payload)
        if faults:
            errors = [FieldError(field=".".join((path, *place)), message=why) for place, why in faults]
            raise Refused(errors, hint=f"see the payload schema of the handler `{self.handler}`")


class ContractBook:
    """The contracts of all handlers, read again after two seconds and compiled once."""

    def __init__(
        self, read: Callable[[], list[ContractView]], *, clock: Callable[[], float] = boottime
    ) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._doors: Mapping[str, Door] = {}
        self._compiled: dict[int, Door] = {}
        self._barred: Mapping[str, ContractView] = {}
        self._read_at = float("-inf")

    def door(self, handler: str, path: str) -> Door:
        """The handler's door, open also while no live node serves it: what comes in then waits for one.

        Raises InvalidInput naming `path` and the known handlers when nobody published one, Unavailable
        while every node that has the handler refuses it and none ever served it.
        """
        self._refresh(_MAX_AGE)
        if handler not in self._doors:
            self._refresh(_MIN_AGE)
        door = self._doors.get(handler)
        if door is not None:
            return door
        if handler in self._barred:
            raise _refused_everywhere(self._barred[handler])
        raise InvalidInput(path, f"no handler is named `{handler}`", hint=self._hint(handler))

    def _hint(self, handler: str) -> str:
        known = sorted(self._doors)
        if close := difflib.get_close_matches(handler, known, n=1):
            return f"did you mean `{close[0]}`? Known handlers: {', '.join(known[:50])}"
        if known:
            return f"known handlers: {', '.join(known[:50])}; a new one is known once its nodes are restarted"
        return "no agent has published a handler yet; is one running?"

    def _refresh(self, max_age: float) -> None:
        if self._clock() - self._read_at <= max_age:
            return
        with self._lock:
            if self._clock() - self._read_at <= max_age:
                return
            started = self._clock()
            contracts = self._read()
            self._compiled = {one.id: self._compile(one) for one in contracts if one.accepted}
            self._doors = {door.handler: door for door in self._compiled.values()}
            self._barred = {one.handler: one for one in contracts if not one.accepted}
            self._read_at = started

    def _compile(self, contract: ContractView) -> Door:
        return self._compiled.get(contract.id) or _door(contract)


def _refused_everywhere(contract: ContractView) -> Unavailable:
    why = "; ".join(f"refused on {one.node}: {one.message}" for one in contract.refusals)
    return Unavailable(
        f"no live node serves `{contract.handler}`{f': {why}' if why else ''}",
        hint="It is served once nothing waits that it cannot accept: mend the handler, or cancel that job.",
    )


def _door(contract: ContractView) -> Door:
    defaults: Mapping[str, Any] = contract.defaults
    backoff: Mapping[str, float] = defaults["backoff"]
    return Door(
        contract=contract.id,
        handler=contract.handler,
        queue=defaults["queue"],
        priority=defaults["priority"],
        max_retries=defaults["max_retries"],
        timeout=float(defaults["timeout"]),
        backoff=Backoff(float(backoff["base"]), float(backoff["cap"])),
        schema=Schema(contract.payload_schema),
    )
