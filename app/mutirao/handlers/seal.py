"""Whether the files that handlers are made of are still those that were looked at."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_CONTRACTS = frozenset({".py", ".json"})


def seal_of(modules: Iterable[str], directory: str) -> str:
    """A digest of the Python and schema files among the modules and in the directory ('' is none).

    Programs are not among them: they are started anew for each attempt, and their contract is in the schema.
    """
    files = {Path(name) for name in modules if name.endswith(".py")}
    with suppress(OSError):  # who loads it will say what is wrong
        files |= (
            {path for path in Path(directory).iterdir() if path.suffix in _CONTRACTS} if directory else set()
        )
    digest = hashlib.sha256()
    for path in sorted(files):
        with suppress(OSError):
            content = path.read_bytes()
            digest.update(f"{path}\0{len(content)}\0".encode(errors="surrogateescape") + content)
    return digest.hexdigest()
