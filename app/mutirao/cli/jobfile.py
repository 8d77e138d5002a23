"""Many jobs from a file: one JSON object a line, sent as it is written, so that no number changes."""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import msgspec

from mutirao.errors import InvalidInput


class JobFile:
    """The requests of a file (`-`: of standard input) in order; blank lines are passed over.

    With `key`, the job of line n gets the idempotency key `<key>-n` unless it has one of its own.
    """

    def __init__(self, name: str, key: str | None) -> None:
        self._name = name
        self._key = key
        self._lines = array("Q")

    def count(self) -> int | None:
        """How many jobs there are; None when only reading them can tell, which a pipe allows once."""
        if not Path(self._name).is_file():
            return None
        with self._open() as stream:
            return sum(1 for line in stream if line.strip())

    def texts(self) -> Iterator[str]:
        """Each request's JSON under an idempotency key; InvalidInput naming the line."""
        with self._open() as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    self._lines.append(number)
                    yield self._text(number, line)

    def located(self, error: InvalidInput) -> InvalidInput:
        """The error of a submission, naming the line instead of the place among all jobs."""
        match error.field.split("."):
            case ["jobs", number, *rest] if number.isdecimal() and int(number) < len(self._lines):
                where = f"line {self._lines[int(number)]}"
                return InvalidInput(": ".join([where, *([".".join(rest)] if rest else [])]), error.message,
                                    hint=error.hint)  # fmt: skip
        return error

    def _text(self, number: int, line: bytes) -> str:
        try:
            text = line.strip().decode()
            fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput(f"line {number}", f"is not a JSON object: {error}") from None
        if "idempotency_key" in fields:
            return text
        key = f"{self._key}-{number}" if self._key else str(uuid4())
        return f'{{"idempotency_key": {json.dumps(key)}{", " if fields else ""}{text[1:]}'

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        if self._name == "-":
            yield sys.stdin.buffer
            return
        try:
            stream = open(self._name, "rb")  # noqa: PTH123, SIM115 - closed below; only opening is ours to explain
        except OSError as error:
            raise InvalidInput("file", f"{self._name}: {error.strerror}") from None
        with stream:
            yield stream
