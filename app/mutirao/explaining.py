"""A compiled JSON Schema (2020-12), and what it finds wrong in plain words; needs no handler's code."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from jsonschema_rs import Draft202012Validator, ValidationError

_MOST_FAULTS = 20
_LONGEST = 300


class Schema:
    """A JSON Schema that looks nothing up elsewhere; ValueError says what is no schema about it."""

    def __init__(self, schema: dict[str, Any]) -> None:
        try:
            self._validator = Draft202012Validator(schema, offline=True)
        except (ValidationError, ValueError) as error:
            raise ValueError(_shortened(_reason(error))) from None

    def faults(self, value: object) -> list[tuple[tuple[str, ...], str]]:
        """Up to twenty (path of a field, what is wrong with it); none when the value fits."""
        if self._validator.is_valid(value):
            return []
        found = (fault for error in self._validator.iter_errors(value) for fault in _explain(error))
        return list(islice(found, _MOST_FAULTS))


def _explain(error: ValidationError) -> Iterator[tuple[tuple[str, ...], str]]:
    path = tuple(map(str, error.instance_path))
    kind = error.kind.name
    if kind == "required":
        yield (*path, str(error.kind.as_dict()["property"])), "is required"
    elif kind == "additionalProperties":
        for name in error.kind.as_dict()["unexpected"]:
            yield (*path, str(name)), "is not a known field"
    else:
        yield path, _shortened(error.message)


def _reason(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    place = ".".join(map(str, error.instance_path))
    return f"`{place}`: {error.message}" if place else error.message


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
