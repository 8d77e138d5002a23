"""Settings as people read them: what each one means, its default, an example file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from mutirao.settings.model import SECRETS, Settings

# What is computed from the machine or from other settings, in words.
_COMPUTED = {
    "node_name": "the host name",
    "state_dir": "/var/lib/mutirao for root, else ~/.local/state/mutirao",
    "runtime_dir": "/run/mutirao for root, else below $XDG_RUNTIME_DIR or /dev/shm",
    "slots": "cores, at most 4",
    "web_url": "from web_host and web_port",
}
_SAMPLES: dict[str, object] = {
    "node_name": "edge-1",
    "state_dir": "/var/lib/mutirao",
    "runtime_dir": "/run/mutirao",
    "postgres": "postgresql://mutirao:…@127.0.0.1/mutirao",
    "redis": "redis://:…@127.0.0.1:6379/0",
    "slots": 4,
    "web_url": "http://edge-1.example:8080",
    "agent_port": 8180,
    "api_token": "…",
    "checksum_roots": ["/srv/data"],
    "handler_modules": ["my_company.handlers"],
    "handlers_dir": "/etc/mutirao/handlers",
    "commands": ["/usr/bin/rsync"],
    "http_hosts": ["example.org"],
    "failpoints": "/run/mutirao/failpoints",
}


class Unit(Enum):
    """What kind of value a setting takes, in a word."""

    TEXT, NUMBER, SECONDS, YES_OR_NO, PATH, LIST, SECRET = (
        "text", "number", "seconds", "true or false", "path", "list", "secret text",
    )  # fmt: skip


def unit(name: str) -> str:
    """The kind of value of a setting; a list's variable is separated by commas."""
    annotation = Settings.model_fields[name].annotation
    kinds = {annotation, *get_args(annotation)} if get_origin(annotation) is not list else {list}
    words = {float: Unit.SECONDS, bool: Unit.YES_OR_NO, int: Unit.NUMBER, list: Unit.LIST}
    if name in SECRETS:
        return Unit.SECRET.value
    if get_origin(annotation) is Literal:
        return ", ".join(get_args(annotation))
    named = {getattr(kind, "__name__", "") for kind in kinds}
    found = next((word for kind, word in words.items() if kind in kinds), None)
    return (found or (Unit.PATH if "Path" in named else Unit.TEXT)).value


def default(name: str) -> str:
    """The default of a setting, in words where it is computed."""
    if name in _COMPUTED:
        return _COMPUTED[name]
    value = _plain(Settings.model_fields[name])
    if value is PydanticUndefined:
        return "required"
    return "none" if value in (None, []) else _toml(value)


def example() -> str:
    """A whole mutirao.toml: what is required filled in, everything else said and commented out."""
    return "\n".join(["# One node's settings. A file with passwords in it: chmod 600.", *_lines()]) + "\n"


def _lines() -> Iterator[str]:
    for name, field in Settings.model_fields.items():
        required = field.is_required()
        value = _SAMPLES.get(name, _plain(field))
        yield ""
        yield f"# {(field.description or '')[:1].upper()}{(field.description or '')[1:]}."
        if not required:
            yield f"# Default: {default(name)}"
        yield f"{'' if required else '# '}{name} = {_toml(value)}"


def _plain(field: FieldInfo) -> Any:
    return field.get_default(call_default_factory=True)


def _toml(value: Any) -> str:
    # Strings, numbers, booleans and lists are written alike in JSON and TOML.
    return json.dumps(value, ensure_ascii=False)
