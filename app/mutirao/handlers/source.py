"""One place where handlers come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from mutirao.contract import AnyHandler
from mutirao.errors import ContractError


@dataclass(frozen=True, slots=True)
class Source:
    """A place not yet looked into; `load` raises ContractError when nothing can come of it."""

    origin: str
    load: Callable[[], Iterable[AnyHandler]]
    note: str = ""


def refused(origin: str, error: ContractError) -> Source:
    """A place that was looked into, and must not be used."""
    return Source(origin, partial(_refuse, error))


def _refuse(error: ContractError) -> NoReturn:
    raise error
