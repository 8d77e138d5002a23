"""`command`: runs a program that the operator allows, without a shell and without a search path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, WithJsonSchema, create_model

from mutirao.contract import Context, HandlerDefaults, Payload
from mutirao.handlers.program import run_program
from mutirao.handlers.trusted import require_program
from mutirao.tail import Output, Tail


class Invocation(Payload):
    """A program by its absolute path, its arguments, and what it reads on its standard input."""

    argv: Annotated[list[str], Field(min_length=1)]
    stdin: str = ""


class Ran(Payload):
    """How it ended, and the end of what it wrote to its standard output."""

    exit_status: int
    stdout: str
    stdout_dropped: int


class Command:
    """Runs one of the programs; any exit status but 0 is a failure, as with executables."""

    name = "command"
    result_type = Ran
    defaults = HandlerDefaults(cancel_grace=5.0)

    def __init__(self, programs: Sequence[str]) -> None:
        for program in programs:
            require_program(Path(program))
        self.payload_type = _one_of(programs)

    def run(self, payload: Invocation, context: Context) -> Ran:
        """Runs it; the result holds the last 64 KiB of its standard output, as text."""
        require_program(Path(payload.argv[0]))  # it may have been changed since the start
        tail = Tail()
        run_program(payload.argv, payload.stdin.encode(), context, tail.add)
        output = (tail.take() or Output(b"", 0)).fitted()
        return Ran(exit_status=0, stdout=output.text(), stdout_dropped=output.dropped)


def _one_of(programs: Sequence[str]) -> Any:
    """The payload's type, with a schema by which the door refuses every other program."""

    def allowed(argv: list[str]) -> list[str]:
        if argv[0] not in programs:
            raise ValueError(f"{argv[0]!r} is not among the allowed programs (setting `commands`)")
        return argv

    schema = {
        "type": "array",
        "minItems": 1,
        "prefixItems": [{"enum": list(programs)}],
        "items": {"type": "string"},
    }
    argv = Annotated[
        list[str], Field(min_length=1), AfterValidator(allowed), WithJsonSchema(schema, mode="validation")
    ]
    return create_model("Invocation", __base__=Invocation, __doc__=Invocation.__doc__, argv=(argv, ...))
