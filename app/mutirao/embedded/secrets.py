"""The embedded servers' passwords: made once, kept beside the data they open, readable by us alone."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from mutirao.errors import MutiraoError


@dataclass(frozen=True, slots=True, repr=False)
class Secrets:
    """One password each for PostgreSQL's superuser, the application's role, and Redis."""

    superuser: str
    application: str
    redis: str


def load_secrets(path: Path) -> Secrets:
    """The passwords kept in `path`, made at first use with mode 0600."""
    if not path.exists():
        _create(path)
    try:
        return Secrets(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise MutiraoError(f"{path}: cannot be read as passwords: {error}") from None


def _create(path: Path) -> None:
    made = Secrets(*(secrets.token_hex(24) for _ in range(3)))
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(made), file)
        file.flush()
        os.fsync(descriptor)
    scratch.rename(path)
