"""An executable file as a handler: JSON on its standard input, JSON on its standard output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mutirao.contract import LARGEST_RESULT, Context, HandlerDefaults, ResultRefused
from mutirao.handlers.program import run_program


@dataclass(frozen=True, slots=True)
class Executable:
    """A SchemaHandler that runs the program at `path`."""

    path: str
    name: str
    description: str
    payload_schema: dict[str, Any]
    result_schema: dict[str, Any]
    defaults: HandlerDefaults = field(default_factory=HandlerDefaults)

    def run(self, payload: bytes, context: Context) -> bytes:
        """The program's standard output; no output is null."""
        result = bytearray()

        def take(chunk: bytes) -> None:
            result.extend(chunk)
            if len(result) > LARGEST_RESULT:
                raise ResultRefused(f"standard output, which is the result, exceeds {LARGEST_RESULT} bytes")

        # A line, since that is what a shell's `read` waits for.
        run_program([self.path], payload + b"\n", context, take)
        return bytes(result.strip()) or b"null"
