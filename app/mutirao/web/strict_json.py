"""Strict JSON at the door: what would be lost or changed later is refused first, and the field is named (I9).

The fast path is the C parser with a few hooks; only a suspicious document is walked in Python.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from mutirao.errors import InvalidInput

MAX_DEPTH = 100
MAX_DIGITS = 300

# NUL and surrogate escapes (also half of a good pair), and integers that could be too long.
_SUSPICIOUS = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])|[0-9]{%d}" % (MAX_DIGITS + 1))
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Refused:
    """Stands in the parsed tree for a value that cannot be accepted, until the walk finds its path."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class _Parser:
    """One document's parse; `refused` is set when some `_Refused` is somewhere in the tree."""

    def __init__(self, *, check_integers: bool) -> None:
        self.refused = False
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_float=self._float,
            parse_constant=self._constant,
            parse_int=self._integer if check_integers else None,
        )

    def parse(self, text: str) -> Any:
        return self._decoder.decode(text)

    def _refuse(self, reason: str) -> _Refused:
        self.refused = True
        return _Refused(reason)

    def _object(self, pairs: list[tuple[str, Any]]) -> Any:
        value = dict(pairs)
        if len(value) == len(pairs):
            return value
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        return self._refuse(f"the key {_quoted(repeated)} occurs twice")

    def _float(self, literal: str) -> Any:
        if len(literal) > 2 * MAX_DIGITS:
            return self._refuse(f"a number may have at most {2 * MAX_DIGITS} characters")
        value = float(literal)
        if value - value != 0.0:
            return self._refuse("the number is too large")
        if value == 0.0 and literal.lower().partition("e")[0].strip("-0."):
            return self._refuse("the number is too close to zero")
        return value

    def _constant(self, literal: str) -> _Refused:
        return self._refuse(f"{literal} is not JSON")

    def _integer(self, literal: str) -> Any:
        if len(literal.lstrip("-")) > MAX_DIGITS:
            return self._refuse(f"an integer may have at most {MAX_DIGITS} digits")
        return int(literal)


def parse(body: bytes) -> Any:
    """The document's value: numbers finite, keys unique, no NUL, no lone surrogate; else InvalidInput."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput("", f"the body is not UTF-8 (byte {error.start})") from None
    suspicious = _SUSPICIOUS.search(body) is not None
    parser = _Parser(check_integers=suspicious)
    try:
        value = parser.parse(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidInput("", f"the body is not JSON: {error.msg} ({place})") from None
    except RecursionError:
        raise InvalidInput("", _TOO_DEEP) from None
    if suspicious or parser.refused:
        check(value)
    return value


_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"


def check_depth(raw: bytes, value: Any, field: str) -> None:
    """Refuses `value`, whose JSON text is `raw`, when it is nested more than MAX_DEPTH levels deep."""
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
        check(value, field)


def check(value: Any, field: str = "") -> None:
    """Walks the whole tree and raises InvalidInput with the path of a value that is not acceptable."""
    pending = [(field, 0, value)]
    while pending:
        path, depth, item = pending.pop()
        if isinstance(item, _Refused):
            raise InvalidInput(path, item.reason)
        if isinstance(item, str):
            _check_text(path, item)
        elif isinstance(item, (dict, list)):
            if depth >= MAX_DEPTH:
                raise InvalidInput(field or path.split(".", 1)[0], _TOO_DEEP)
            pending.extend((join(path, key), depth + 1, child) for key, child in _children(path, item))


def _children(path: str, item: dict[str, Any] | list[Any]) -> Iterator[tuple[str | int, Any]]:
    if isinstance(item, list):
        return iter(enumerate(item))
    for key in item:
        _check_text(path, key)
    return iter(item.items())


def _check_text(path: str, text: str) -> None:
    if "\x00" in text:
        raise InvalidInput(path, "NUL (\\u0000) cannot be stored")
    if _SURROGATE.search(text):
        raise InvalidInput(path, "a lone surrogate is not a character")


def join(path: str, key: str | int) -> str:
    """The path of `key` below `path`: `jobs.3.payload`."""
    return f"{path}.{key}" if path else str(key)


def _quoted(text: str) -> str:
    return json.dumps(text[:100])
