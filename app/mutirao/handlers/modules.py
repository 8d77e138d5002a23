"""The handlers that Python modules hold: functions under `@handler`, instances, and classes."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

from mutirao.contract import AnyHandler, FunctionHandler, SchemaHandler
from mutirao.errors import ContractError

_TYPED = ("name", "payload_type", "result_type", "defaults", "run")


def import_handlers(name: str) -> list[AnyHandler]:
    """The handlers that a module defines; `name` is dotted, or the path of a `.py` file.

    ContractError names the line of the file at which its import fails, whatever it raises.
    """
    with _named(name):
        module = _import_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
        return _handlers_of(module)


def entry_point_handlers(point: EntryPoint) -> list[AnyHandler]:
    """The handlers that an entry point names: of a module, or one class or object."""
    with _named(f"entry point {point.name}"):
        thing = point.load()
        if isinstance(thing, ModuleType):
            return _handlers_of(thing)
        candidate: Any = thing() if inspect.isclass(thing) else thing
        if not _is_handler(candidate):
            raise ContractError(f"is no handler: {thing!r}")
        return [candidate]


@contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except ContractError as error:
        raise ContractError(f"{name}: {error.message}", hint=error.hint) from error
    except (Exception, SystemExit) as error:  # foreign code may raise anything
        raise ContractError(
            f"{name} cannot be imported: {_where(error, name)}{type(error).__name__}: {error}"
        ) from error


def _handlers_of(module: ModuleType) -> list[AnyHandler]:
    # Those defined in the module itself, not those it merely imports.
    found: dict[int, AnyHandler] = {}
    for thing in vars(module).values():
        if isinstance(thing, FunctionHandler) and thing.function.__module__ == module.__name__:
            found[id(thing)] = thing
        elif inspect.isclass(thing) and thing.__module__ == module.__name__ and _is_handler(thing):
            instance: Any = thing()
            found[id(thing)] = instance
    return list(found.values())


def _is_handler(thing: object) -> bool:
    return all(hasattr(thing, attribute) for attribute in _TYPED) or isinstance(thing, SchemaHandler)


def _import_file(path: Path) -> ModuleType:
    path = path.resolve()
    # Two files of one name in two directories must not be taken for each other.
    unique = f"mutirao_handlers_{hashlib.sha256(bytes(path)).hexdigest()[:12]}_{path.stem}"
    spec = importlib.util.spec_from_file_location(unique, path)
    if spec is None or spec.loader is None:
        raise ContractError("is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = module
    spec.loader.exec_module(module)
    return module


def _where(error: BaseException, name: str) -> str:
    if isinstance(error, SyntaxError):
        return ""  # it says so itself
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(name)]
    return f"line {own[-1].lineno}: " if own else ""
