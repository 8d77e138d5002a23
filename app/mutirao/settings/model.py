"""What one node can be told: fields, defaults, ranges."""

from __future__ import annotations

import ipaddress
import os
import socket
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from mutirao.hosts import parse_rule

LOCAL_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
SECRETS = frozenset({"postgres", "redis", "api_token"})


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
    """Everything one node is told; frozen, complete and in range once it exists.

    A field's description is what `mutirao settings example` and docs/settings.md say of it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    node_name: str = Field(
        default_factory=socket.gethostname,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
        description="how people call this node; its identity is a uuid in `state_dir`",
    )
    state_dir: Path = Field(
        default_factory=_default_state_dir, description="survives reboots, and is never part of an image"
    )
    runtime_dir: Path = Field(
        default_factory=_default_runtime_dir,
        description="must be in memory: what is there must be gone after a reboot",
    )
    postgres: SecretStr = Field(
        description="PostgreSQL's DSN: `postgresql://user:password@host/database`, or key=value pairs"
    )
    redis: SecretStr = Field(description="`redis://`, `rediss://` or `unix://`, with the password in it")
    redis_prefix: str = Field(
        default="mutirao",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
        description="begins every key and channel in Redis: one for all nodes of a cluster, no other's",
    )
    redis_replicas: int = Field(
        0,
        ge=0,
        description="how many replicas must confirm a beat: the majority of the store nodes, less one",
    )
    slots: int = Field(
        default_factory=_default_slots,
        ge=1,
        le=1024,
        description="runner processes: how many jobs run at once",
    )
    web_host: str = Field(
        "127.0.0.1", description="the address that the web server, and the agent's metrics, listen on"
    )
    web_port: int = Field(8080, ge=1, le=65535, description="the port of the web server")
    web_url: str = Field("", description="the address shown to others")
    web_workers: int = Field(1, ge=1, le=32, description="processes of the web server")
    web_max_requests: int = Field(
        0, ge=0, description="a process of the web server is replaced after so many requests; 0 means never"
    )
    agent_port: int | None = Field(
        None, ge=1, le=65535, description="where the agent serves its metrics; without it, nowhere"
    )
    allowed_hosts: list[str] = Field(
        default_factory=lambda: list(LOCAL_HOSTS), description="values of the header `Host` that are answered"
    )
    api_token: SecretStr | None = Field(
        None, description="required of every request; may be left out on loopback only"
    )
    checksum_roots: list[Path] = Field(
        [], description="below which directories the `checksum` handler may read"
    )
    handler_modules: list[str] = Field(
        [], description="Python modules, or paths of `.py` files, with handlers"
    )
    handlers_dir: Path | None = Field(
        None, description="a directory of handlers: Python files, and programs with a schema beside them"
    )
    commands: list[Path] = Field(
        [], description="absolute paths of the programs that the `command` handler may run"
    )
    http_hosts: list[str] = Field(
        [], description="names, addresses and networks that the `http` handler may talk to"
    )
    drain_timeout: float = Field(
        20.0, ge=0, le=3600, description="seconds a stopping agent lets its jobs finish"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="debug, info, warning or error"
    )
    log_json: bool = Field(False, description="logs as JSON, one object a line")
    failpoints: Path | None = Field(
        None, description="for tests: a directory whose files freeze or kill the process at named places"
    )

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

    @field_validator("http_hosts")
    @classmethod
    def _all_hosts(cls, value: list[str]) -> list[str]:
        for entry in value:
            parse_rule(entry)
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
