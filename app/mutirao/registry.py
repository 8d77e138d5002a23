"""Finding the handlers of a node: built-ins, entry points, named modules or files, and a directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from mutirao.binding import Binding, Contract, bind
from mutirao.contract import AnyHandler
from mutirao.errors import ContractError
from mutirao.handlers import built_in
from mutirao.handlers.modules import entry_point_handlers, import_handlers
from mutirao.handlers.seal import seal_of
from mutirao.handlers.source import Source

if TYPE_CHECKING:  # a runner does without settings
    from mutirao.settings import Settings

ENTRY_POINTS = "mutirao.handlers"


@dataclass(frozen=True, slots=True)
class HandlerConfig:
    """Where handlers come from; `modules` are dotted names, or paths of `.py` files; '' is no directory.

    With a `seal`, the files must still be those it was made of.
    """

    checksum_roots: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    directory: str = ""
    commands: tuple[str, ...] = ()
    http_hosts: tuple[str, ...] = ()
    seal: str = ""

    @classmethod
    def of(cls, settings: Settings) -> HandlerConfig:
        """What this node's settings say about handlers."""
        return cls(
            checksum_roots=tuple(map(str, settings.checksum_roots)),
            modules=tuple(settings.handler_modules),
            directory=str(settings.handlers_dir or ""),
            commands=tuple(map(str, settings.commands)),
            http_hosts=tuple(settings.http_hosts),
        )

    def sealed(self) -> HandlerConfig:
        """The same, for the files as they are now."""
        return replace(self, seal=seal_of(self.modules, self.directory))

    def __post_init__(self) -> None:
        # Runners work in another directory than the agent.
        roots = tuple(str(Path(root).absolute()) for root in self.checksum_roots)
        modules = tuple(str(Path(name).absolute()) if name.endswith(".py") else name for name in self.modules)
        object.__setattr__(self, "checksum_roots", roots)
        object.__setattr__(self, "modules", modules)
        if self.directory:
            object.__setattr__(self, "directory", str(Path(self.directory).absolute()))


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found in one place: handlers, or why it is refused and what to do, or that it is ignored."""

    origin: str
    handlers: tuple[str, ...] = ()
    error: str = ""
    hint: str = ""


class Registry:
    """The handlers of this node by name; two under one name are refused."""

    def __init__(self) -> None:
        self._bound: dict[str, Binding] = {}
        self._origins: dict[str, str] = {}

    def add(self, handler: AnyHandler, origin: str) -> Binding:
        """Takes one more in; ContractError if it breaks the protocol, or its name is taken."""
        try:
            bound = bind(handler)
        except ContractError as error:
            raise ContractError(f"{origin}: {error.message}", hint=error.hint) from error
        if bound.name in self._bound:
            other = self._origins[bound.name]
            raise ContractError(f"handler {bound.name!r} is defined by both {other} and {origin}")
        self._bound[bound.name] = bound
        self._origins[bound.name] = origin
        return bound

    def bound(self, name: str) -> Binding | None:
        """The handler of that name, made ready, or None."""
        return self._bound.get(name)

    def names(self) -> list[str]:
        """Every name, sorted."""
        return sorted(self._bound)

    def contracts(self) -> list[Contract]:
        """Every handler's contract, sorted by name."""
        return [self._bound[name].contract() for name in self.names()]


def load_registry(config: HandlerConfig) -> Registry:
    """Every handler of this node; ContractError if one breaks the protocol or a name is taken twice."""
    if config.seal and config.seal != seal_of(config.modules, config.directory):
        # A payload that fits what the agent has published must not be judged by anything else.
        raise ContractError("the handlers' files have changed since the agent was started: restart it")
    registry = Registry()
    for source in _sources(config):
        for handler in source.load():
            registry.add(handler, source.origin)
    return registry


def check(config: HandlerConfig) -> list[Finding]:
    """All that `load_registry` finds and would refuse, place by place; imports modules, runs no handler."""
    registry = Registry()
    return [_look(source, registry) for source in _sources(config)]


def _look(source: Source, registry: Registry) -> Finding:
    names: list[str] = []
    try:
        for handler in source.load():
            names.append(registry.add(handler, source.origin).contract().handler)
    except ContractError as error:
        return Finding(source.origin, tuple(names), error.message, error.hint)
    return Finding(source.origin, tuple(names), hint=source.note)


def _sources(config: HandlerConfig) -> Iterator[Source]:
    for name, make in built_in(config.checksum_roots, config.commands, config.http_hosts).items():
        yield Source(f"the built-in {name}", partial(_made, make))
    for point in entry_points(group=ENTRY_POINTS):
        yield Source(f"entry point {point.name} ({point.value})", partial(entry_point_handlers, point))
    for name in dict.fromkeys(config.modules):
        yield Source(f"module {name}", partial(import_handlers, name))
    if config.directory:
        # A runner without a directory does without what programs need.
        from mutirao.handlers.deployed import sources  # noqa: PLC0415

        yield from sources(Path(config.directory))


def _made(make: Callable[[], AnyHandler]) -> list[AnyHandler]:
    return [make()]
