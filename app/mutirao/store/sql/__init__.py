"""The loader of named SQL blocks: statements live in `.sql` files and nowhere else."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


class Statements:
    """The named blocks of one file, as attributes; a name that is not there raises AttributeError."""

    def __init__(self, blocks: dict[str, str]) -> None:
        self._blocks = blocks

    def __getattr__(self, name: str) -> str:
        try:
            return self._blocks[name]
        except KeyError:
            raise AttributeError(f"no SQL block named {name}") from None

    def names(self) -> frozenset[str]:
        """The blocks' names."""
        return frozenset(self._blocks)


@cache
def load(file: str) -> Statements:
    """Reads `store/sql/<file>`; each block begins with `-- name: NAME` and a line that says what it does."""
    text = resources.files(__package__).joinpath(file).read_text(encoding="utf-8")
    parts = _NAME.split(text)[1:]
    return Statements({name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)})
