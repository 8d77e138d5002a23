"""Lists as PostgreSQL arrays: a long column of plain values is written in one go, not value by value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from psycopg.adapt import PyFormat
from psycopg.types.array import BaseListDumper, ListDumper

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"'})


def _uuid(value: UUID) -> str:
    return f"{value.int:032x}"


def _text(value: str) -> str:
    return f'"{value.translate(_ESCAPES)}"'


_WRITERS: dict[type, Callable[[Any], str]] = {UUID: _uuid, int: repr, float: repr, str: _text}


class ColumnDumper(ListDumper):
    """One-dimensional lists of UUIDs, of numbers or of texts, with None among them or not.

    The statement says which type of array it takes. Other lists are written as psycopg does.
    """

    oid = 0

    def get_key(self, obj: list[Any], format: PyFormat) -> Any:
        """This dumper's own key where it can write the list."""
        return self.cls if _writer(obj) else super().get_key(obj, format)

    def upgrade(self, obj: list[Any], format: PyFormat) -> BaseListDumper:
        """This dumper where it can write the list, else psycopg's for what the list holds."""
        return self if _writer(obj) else ListDumper(self.cls, self._tx).upgrade(obj, format)

    def dump(self, obj: list[Any]) -> bytes:
        """The array's text."""
        write = _writer(obj)
        assert write is not None
        return f"{{{','.join(['NULL' if value is None else write(value) for value in obj])}}}".encode()


def _writer(column: list[Any]) -> Callable[[Any], str] | None:
    kinds = set(map(type, column)) - {type(None)}
    if len(kinds) > 1:
        return repr if kinds == {int, float} else None
    return _WRITERS.get(kinds.pop()) if kinds else _text
