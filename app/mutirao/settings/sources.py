"""Where settings come from: a file, over it the environment, over both what the caller gives."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from mutirao.errors import SettingsError
from mutirao.settings.mistakes import closest, explain, missing_hint
from mutirao.settings.model import SECRETS, Settings

PREFIX = "MUTIRAO_"


class Given(NamedTuple):
    """A setting that somebody gave, and where."""

    value: object
    origin: str


def load_settings(path: Path | None = None, overrides: Mapping[str, object] | None = None) -> Settings:
    """The settings from file, then MUTIRAO_* variables, then `overrides` (None means not given)."""
    given = {key: value for key, value in (overrides or {}).items() if value is not None}
    merged = {**{name: one.value for name, one in gather(path).items()}, **given}
    source = str(path) if path is not None else "settings"
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise SettingsError(f"{source}: {explain(error)}", hint=missing_hint(error, PREFIX)) from None


def gather(path: Path | None) -> dict[str, Given]:
    """What the file and the environment give, the environment winning; not yet checked."""
    from_file = {name: Given(value, str(path)) for name, value in _from_file(path).items()}
    from_environment = {
        name: Given(value, PREFIX + name.upper()) for name, value in _from_environment(os.environ).items()
    }
    return {**from_file, **from_environment}


def environment(name: str, default: str | None = None) -> str | None:
    """The variable MUTIRAO_<name> of a command that has no settings file (a REST verb)."""
    return os.environ.get(PREFIX + name, default)


def inherited_environment(without: Iterable[str]) -> dict[str, str]:
    """Our environment for a child, less the MUTIRAO_* variables of the settings named in `without`."""
    hidden = {PREFIX + name.upper() for name in without}
    return {name: value for name, value in os.environ.items() if name not in hidden}


def _from_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}", hint="name a readable file with --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from None
    # A group may read (root:mutirao 0640 on a node), others never: the file holds passwords.
    if SECRETS & data.keys() and path.stat().st_mode & 0o037:
        raise SettingsError(f"{path}: holds passwords but others may read it", hint=f"chmod 600 {path}")
    return data


def _from_environment(environ: Mapping[str, str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX):
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name in Settings.model_fields:
            values[name] = _split(name, text)
        elif close := closest(name):
            # Other MUTIRAO_* variables exist (a client's URL, a run's marker); only a near miss is a mistake.
            raise SettingsError(f"unknown setting `{variable}`, did you mean `{PREFIX}{close.upper()}`?")
    return values


def _split(name: str, text: str) -> object:
    if getattr(Settings.model_fields[name].annotation, "__origin__", None) is list:
        return [part.strip() for part in text.split(",") if part.strip()]
    return text
