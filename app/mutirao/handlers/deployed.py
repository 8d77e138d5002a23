"""The handlers of a directory: Python files, and executables that have a schema beside them."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from mutirao.contract import AnyHandler, HandlerDefaults
from mutirao.errors import ContractError
from mutirao.handlers.executable import Executable
from mutirao.handlers.modules import import_handlers
from mutirao.handlers.source import Source, refused
from mutirao.handlers.trusted import require_program, require_trusted

_PYTHON, _SCHEMA = ".py", ".json"
_FIRST_BYTES = 512
_PLAIN_WORDS = {
    "missing": "is required",
    "extra_forbidden": "is not a known field",
    "unexpected_keyword_argument": "is not a known field",
}


class Description(BaseModel):
    """What the JSON file beside an executable says."""

    model_config = ConfigDict(extra="forbid", strict=True)

    handler: str | None = None
    description: str = ""
    payload: dict[str, Any]
    result: dict[str, Any] = {}
    defaults: HandlerDefaults = HandlerDefaults()


@dataclass(frozen=True, slots=True)
class Deployed:
    """What a directory holds, by name: each kind apart, and what is wrong with the rest."""

    python: list[Path] = field(default_factory=list)
    executables: list[tuple[Path, Path]] = field(default_factory=list)
    wrong: list[tuple[Path, ContractError]] = field(default_factory=list)
    ignored: list[Path] = field(default_factory=list)


def sources(directory: Path) -> Iterator[Source]:
    """Every place in the directory that handlers come from, what is wrong with it first."""
    try:
        found = scan(directory)
    except ContractError as error:
        yield refused(str(directory), error)
        return
    for path, reason in found.wrong:
        yield refused(str(path), reason)
    if found.python and str(directory) not in sys.path:
        sys.path.append(str(directory))  # for what they share, in files that begin with `_`
    for path in found.python:
        yield Source(str(path), partial(_of_python, path))
    for path, schema in found.executables:
        yield Source(str(path), partial(_of_executable, path, schema))
    for path in found.ignored:
        yield Source(str(path), list, "ignored: neither Python, nor a schema, nor a program (chmod +x)")


def _of_python(path: Path) -> list[AnyHandler]:
    found = import_handlers(str(path))
    if not found:
        raise ContractError(
            f"{path} defines no handler",
            hint='put @handler("NAME") before its function, or begin the file\'s name with `_`',
        )
    return found


def scan(directory: Path) -> Deployed:
    """Sorts what is in the directory; runs nothing, and does not look into subdirectories.

    What begins with `_` or `.` is no handler, though Python files may import it. All that is there must
    be changeable by root and this user alone. ContractError when that is not so of the directory itself.
    """
    if not stat.S_ISDIR(require_trusted(directory).st_mode):
        raise ContractError(f"{directory} is not a directory")
    found = Deployed()
    names = sorted(directory.iterdir())
    for path in names:
        try:
            _sort(path, names, found)
        except ContractError as error:
            found.wrong.append((path, error))
    return found


def _sort(path: Path, names: list[Path], found: Deployed) -> None:
    if path.is_symlink():
        raise ContractError(f"{path} is a symbolic link", hint="put the file itself there")
    kind = require_trusted(path).st_mode
    if not stat.S_ISREG(kind) or path.name.startswith(("_", ".")):
        return
    if path.suffix == _PYTHON:
        found.python.append(path)
    elif path.suffix == _SCHEMA:
        _require_subject(path, names)
    elif schemas := [beside for beside in _schemas_of(path) if beside in names]:
        _require_one(path, schemas, names)
        require_program(path)
        _require_interpreter(path)
        found.executables.append((path, schemas[0]))
    elif kind & 0o111:
        raise ContractError(
            f"{path} is executable but has no schema beside it",
            hint=f"describe its payload in {path.with_suffix(_SCHEMA)}, or put it in a subdirectory",
        )
    else:
        found.ignored.append(path)


def _schemas_of(path: Path) -> list[Path]:
    """Where an executable's schema may be; both are one for a name without an extension."""
    return list(dict.fromkeys([path.with_name(path.name + _SCHEMA), path.with_suffix(_SCHEMA)]))


def _subjects_of(schema: Path, names: list[Path]) -> Iterator[Path]:
    for path in names:
        if path.suffix not in {_PYTHON, _SCHEMA} and schema in _schemas_of(path):
            yield path


def _require_subject(schema: Path, names: list[Path]) -> None:
    if any(_subjects_of(schema, names)):
        return
    if schema.with_suffix(_PYTHON) in names:
        hint = "Python handlers take theirs from their types; an executable must not be named .py"
    else:
        hint = "put the executable there, or the data in a subdirectory"
    raise ContractError(f"{schema} is a schema without an executable `{schema.stem}`", hint=hint)


def _require_one(path: Path, schemas: list[Path], names: list[Path]) -> None:
    if len(schemas) > 1:
        both = f"{schemas[0].name} and {schemas[1].name}"
        raise ContractError(f"{path} has two schemas, {both}", hint="remove one of them")
    others = [other for other in _subjects_of(schemas[0], names) if other != path]
    if others:
        raise ContractError(
            f"{schemas[0]} could be the schema of {path.name} and of {others[0].name}",
            hint=f"give each its own: {path.name}{_SCHEMA}, {others[0].name}{_SCHEMA}",
        )


def _require_interpreter(path: Path) -> None:
    with path.open("rb") as file:
        begin = file.read(_FIRST_BYTES)
    # Binaries hold NUL bytes near their beginning, whatever their format.
    if b"\0" in begin:
        return
    line = begin.partition(b"\n")[0]
    words = line.removeprefix(b"#!").split()
    if not line.startswith(b"#!") or not words:
        raise ContractError(f"{path} does not say what runs it", hint="begin it with a line like `#!/bin/sh`")
    # The system would only say that there is no such file, and mean the interpreter.
    if line.endswith(b"\r"):
        raise ContractError(f"{path} has Windows line endings", hint=f"sed -i 's/\\r$//' {path}")
    interpreter = Path(os.fsdecode(words[0]))
    if not interpreter.is_file():
        raise ContractError(
            f"{path} is to be run by `{interpreter}`, which is not there", hint="correct its first line"
        )


def _of_executable(path: Path, schema: Path) -> list[AnyHandler]:
    try:
        said = Description.model_validate_json(schema.read_bytes(), strict=True)
    except ValidationError as error:
        raise ContractError(f"{schema}: {_explained(error)}", hint="see docs/handlers.md") from None
    except OSError as error:
        raise ContractError(f"{schema}: {error.strerror}") from None
    except ContractError as error:
        raise ContractError(f"{schema}: defaults: {error.message}", hint=error.hint) from None
    name = said.handler if said.handler is not None else path.stem
    return [Executable(str(path), name, said.description, said.payload, said.result, said.defaults)]


def _explained(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"`{'.'.join(map(str, one['loc']))}` {_PLAIN_WORDS.get(one['type'], one['msg'])}"
        if one["loc"]
        else one["msg"]
        for one in found
    )
