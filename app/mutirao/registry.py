"""Finding the handlers of a node: built-ins, entry points `mutirao.handlers`, and named modules or files."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mutirao.binding import Binding, Contract, bind
from mutirao.contract import FunctionHandler, Handler, SchemaHandler
from mutirao.errors import ContractError
from mutirao.handlers import built_in

if TYPE_CHECKING:  # a runner does without settings
    from mutirao.settings import Settings

ENTRY_POINTS = "mutirao.handlers"
AnyHandler = Handler[Any, Any] | SchemaHandler
Named = tuple[str, AnyHandler]


@dataclass(frozen=True, slots=True)
class HandlerConfig:
    """Where handlers come from; `modules` are dotted names, or paths of `.py` files; '' is no directory."""

    checksum_roots: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    directory: str = ""
    commands: tuple[str, ...] = ()
    http_hosts: tuple[str, ...] = ()

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

    def __post_init__(self) -> None:
        # Runners work in another directory than the agent.
        roots = tuple(str(Path(root).absolute()) for root in self.checksum_roots)
        modules = tuple(str(Path(name).absolute()) if name.endswith(".py") else name for name in self.modules)
        object.__setattr__(self, "checksum_roots", roots)
        object.__setattr__(self, "modules", modules)
        if self.directory:
            object.__setattr__(self, "directory", str(Path(self.directory).absolute()))


class Registry:
    """The handlers of this node by name; two under one name are refused."""

    def __init__(self, found: Iterable[Named]) -> None:
        self._bound: dict[str, Binding] = {}
        origins: dict[str, str] = {}
        for origin, handler in found:
            other = origins.setdefault(handler.name, origin)
            if other != origin or handler.name in self._bound:
                raise ContractError(f"handler {handler.name!r} is defined by both {other} and {origin}")
            self._bound[handler.name] = bind(handler)

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
    return Registry(_all(config))


def _all(config: HandlerConfig) -> Iterator[Named]:
    for handler in built_in(config.checksum_roots):
        yield f"the built-in {handler.name}", handler
    for point in entry_points(group=ENTRY_POINTS):
        for handler in _handlers_in(point.load(), f"entry point {point.name}"):
            yield f"entry point {point.name} ({point.value})", handler
    for name in dict.fromkeys(config.modules):
        for handler in _of_module(_import(name)):
            yield f"module {name}", handler


def _import(name: str) -> ModuleType:
    if not name.endswith(".py"):
        return importlib.import_module(name)
    path = Path(name).resolve()
    # Two files of one name in two directories must not be taken for each other.
    unique = f"mutirao_handlers_{hashlib.sha256(bytes(path)).hexdigest()[:12]}_{path.stem}"
    spec = importlib.util.spec_from_file_location(unique, path)
    if spec is None or spec.loader is None:
        raise ContractError(f"{name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = module
    spec.loader.exec_module(module)
    return module


def _handlers_in(thing: Any, origin: str) -> list[Handler[Any, Any]]:
    if isinstance(thing, ModuleType):
        return _of_module(thing)
    candidate: Any = thing() if inspect.isclass(thing) else thing
    if not _is_handler(candidate):
        raise ContractError(f"{origin} is no handler: {thing!r}")
    return [candidate]


def _of_module(module: ModuleType) -> list[Handler[Any, Any]]:
    """Handler objects and handler classes defined in the module itself, not those it merely imports."""
    found: dict[int, Handler[Any, Any]] = {}
    for thing in vars(module).values():
        if isinstance(thing, FunctionHandler) and thing.function.__module__ == module.__name__:
            found[id(thing)] = thing
        elif inspect.isclass(thing) and thing.__module__ == module.__name__ and _is_handler(thing):
            instance: Any = thing()
            found[id(thing)] = instance
    return list(found.values())


def _is_handler(thing: object) -> bool:
    wanted = ("name", "payload_type", "result_type", "defaults", "run")
    return all(hasattr(thing, attribute) for attribute in wanted)
