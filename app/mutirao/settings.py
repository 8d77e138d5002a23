"""Typed settings, checked before anything starts; the only reader of the environment."""

from __future__ import annotations

import difflib
import ipaddress
import os
import socket
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from mutirao.errors import SettingsError

PREFIX = "MUTIRAO_"
LOCAL_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
_SECRET_FIELDS = frozenset({"postgres", "redis", "api_token"})


def _default_state_dir() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/mutirao")
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "mutirao"


def _default_runtime_dir() -> Path:
    if os.geteuid() == 0:
        return Path("/run/mutirao")
    return Path(os.environ.get("XDG_RUNTIME_DIR") or f"/dev/shm/mutirao-{os.geteuid()}") / "mutirao"  # noqa: S108 - created 0700 by its user


def default_data_dir() -> Path:
    """Where `mutirao up` keeps its data unless told otherwise."""
    return _default_state_dir() / "default"


def _default_slots() -> int:
    return max(1, min(os.cpu_count() or 1, 4))


class Settings(BaseModel):
    """Everything one node is told; frozen, complete and in range once it exists."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    node_name: str = Field(default_factory=socket.gethostname, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")
    state_dir: Path = Field(default_factory=_default_state_dir)
    runtime_dir: Path = Field(default_factory=_default_runtime_dir)
    postgres: SecretStr
    redis: SecretStr
    redis_prefix: str = Field(default="mutirao", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")
    redis_replicas: Annotated[int, Field(ge=0)] = 0
    slots: Annotated[int, Field(ge=1, le=1024)] = Field(default_factory=_default_slots)
    web_host: str = "127.0.0.1"
    web_port: Annotated[int, Field(ge=1, le=65535)] = 8080
    web_url: str = ""
    web_workers: Annotated[int, Field(ge=1, le=32)] = 1
    web_max_requests: Annotated[int, Field(ge=0)] = 0
    agent_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    allowed_hosts: list[str] = Field(default_factory=lambda: list(LOCAL_HOSTS))
    api_token: SecretStr | None = None
    checksum_roots: list[Path] = []
    handler_modules: list[str] = []
    handlers_dir: Path | None = None
    commands: list[Path] = []
    http_hosts: list[str] = []
    drain_timeout: Annotated[float, Field(ge=0, le=3600)] = 20.0
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_json: bool = False
    failpoints: Path | None = None

    @field_validator("state_dir", "runtime_dir", "failpoints", "handlers_dir")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_absolute():
            raise ValueError("must be an absolute path")
        return value

    @field_validator("checksum_roots", "commands")
    @classmethod
    def _all_absolute(cls, value: list[Path]) -> list[Path]:
        for root in value:
            cls._absolute(root)
        return value

    @field_validator("redis")
    @classmethod
    def _redis_scheme(cls, value: SecretStr) -> SecretStr:
        if not value.get_secret_value().startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("must start with redis://, rediss:// or unix://")
        return value

    @field_validator("postgres")
    @classmethod
    def _postgres_form(cls, value: SecretStr) -> SecretStr:
        text = value.get_secret_value()
        if not text.startswith(("postgresql://", "postgres://")) and "=" not in text:
            raise ValueError("must start with postgresql://, or be like `host=… dbname=… user=…`")
        return value

    @model_validator(mode="before")
    @classmethod
    def _derive_url(cls, data: Any) -> Any:
        if isinstance(data, dict) and not data.get("web_url"):
            host = str(data.get("web_host", "127.0.0.1"))
            shown = f"[{host}]" if ":" in host else host
            data = {**data, "web_url": f"http://{shown}:{data.get('web_port', 8080)}"}
        return data

    @model_validator(mode="after")
    def _token_off_loopback(self) -> Settings:
        if self.api_token is None and not is_loopback(self.web_host):
            raise ValueError("api_token is required when web_host is not a loopback address")
        return self


def is_loopback(host: str) -> bool:
    """True only for `localhost` and loopback addresses; other names could resolve to anything."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def load_settings(path: Path | None = None, overrides: Mapping[str, object] | None = None) -> Settings:
    """The settings from file, then MUTIRAO_* variables, then `overrides` (None means not given)."""
    given = {key: value for key, value in (overrides or {}).items() if value is not None}
    merged: dict[str, object] = {**_from_file(path), **_from_environment(os.environ), **given}
    source = str(path) if path is not None else "settings"
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise SettingsError(f"{source}: {_explain(error)}", hint=_missing_hint(error)) from None


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
    if _SECRET_FIELDS & data.keys() and path.stat().st_mode & 0o037:
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
        elif close := _closest(name):
            # Other MUTIRAO_* variables exist (a client's URL, a run's marker); only a near miss is a mistake.
            raise SettingsError(f"unknown setting `{variable}`, did you mean `{PREFIX}{close.upper()}`?")
    return values


def _split(name: str, text: str) -> object:
    if getattr(Settings.model_fields[name].annotation, "__origin__", None) is list:
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _closest(name: str) -> str | None:
    matches = difflib.get_close_matches(name, Settings.model_fields, n=1, cutoff=0.8)
    return matches[0] if matches else None


def _explain(error: ValidationError) -> str:
    return "; ".join(
        _explain_one(dict(item)) for item in error.errors(include_url=False, include_input=False)
    )


def _explain_one(item: Mapping[str, Any]) -> str:
    field = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        close = difflib.get_close_matches(field, Settings.model_fields, n=1, cutoff=0.6)
        return f"unknown setting `{field}`" + (f", did you mean `{close[0]}`?" if close else "")
    if item["type"] == "missing":
        return f"`{field}` is required"
    message = str(item["msg"]).removeprefix("Value error, ")
    return f"`{field}`: {message}" if field else message


def _missing_hint(error: ValidationError) -> str:
    missing = [str(item["loc"][0]) for item in error.errors() if item["type"] == "missing"]
    if not missing:
        return ""
    variables = ", ".join(PREFIX + name.upper() for name in missing)
    return f"set it in the file given with --config, or in the environment: {variables}"
