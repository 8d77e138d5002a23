"""`mutirao handlers check` and `run`: a directory of handlers looked at, and one tried, without a cluster."""

from __future__ import annotations

import json
import logging
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mutirao.cli.payload import FORMS, read_payload
from mutirao.cli.rest import table
from mutirao.client.answers import Refused
from mutirao.errors import ContractError, InvalidInput, MutiraoError, NotFound

if TYPE_CHECKING:
    from mutirao.binding import Binding
    from mutirao.contract import PayloadRefused
    from mutirao.registry import Finding

_DIRECTORY = click.Path(path_type=Path, file_okay=False, exists=True)


@click.command(epilog="\b\nExample:\n  mutirao handlers check /etc/mutirao/handlers")
@click.argument("directory", type=_DIRECTORY)
def check(directory: Path) -> None:
    """Tell what an agent would make of DIRECTORY: its handlers, and all that is wrong with it.

    Modules are imported, no handler is run. Exits with 2 when an agent would not start.
    """
    from mutirao import registry  # noqa: PLC0415 - other verbs must start fast

    found = registry.check(registry.HandlerConfig(directory=str(directory)))
    rows = [(one.origin, ", ".join(one.handlers), _verdict(one)) for one in found]
    table(("where", "handlers", ""), (row for row in rows if not row[0].startswith("the built-in")),
          f"{directory} has no handlers")  # fmt: skip
    wrong = [one for one in found if one.error]
    if wrong:
        raise ContractError(f"an agent would not start: {wrong[0].error}", hint=wrong[0].hint)


@click.command(
    epilog='\b\nExamples:\n  mutirao handlers run echo \'{"message": "hi"}\'\n'
    "  mutirao handlers run word-count @text.json --handlers ./handlers"
)
@click.argument("name")
@click.argument("payload", metavar=f"[{FORMS}]", default="{}")
@click.option("--handlers", "directory", type=_DIRECTORY, help="Where to look besides the built-in ones.")
@click.option("--attempt", type=click.IntRange(min=1), default=1, show_default=True,
              help="Which attempt it is to take itself for.")  # fmt: skip
def run(name: str, payload: str, directory: Path | None, attempt: int) -> None:
    """Run one attempt of handler NAME here, without a cluster, and print its result.

    Exits with 1 when it fails and with 2 when the payload does not fit. Nobody stops it at its timeout.
    """
    from mutirao.contract import PayloadRefused  # noqa: PLC0415
    from mutirao.testing import attempt_of  # noqa: PLC0415

    raw, bound = bytes(read_payload(payload)), _bound(name, directory)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        # What it prints is output, never its result.
        with redirect_stdout(sys.stderr):
            result = attempt_of(bound, raw, number=attempt)
    except PayloadRefused as error:
        raise _refused(bound, raw, error) from None
    except MutiraoError:
        raise
    except Exception as error:  # noqa: BLE001 - a handler is other people's code: whatever it raises is told
        _tell(error)
        sys.exit(1)
    click.echo(result.decode())


def _verdict(found: Finding) -> str:
    return "; ".join(filter(None, (found.error, found.hint))) or "fine"


def _refused(bound: Binding, raw: bytes, error: PayloadRefused) -> InvalidInput:
    """All fields at once, in the door's words; what only the type itself minds, in the type's."""
    from mutirao.explaining import Schema  # noqa: PLC0415

    faults = Schema(bound.contract().payload_schema).faults(json.loads(raw))
    if faults:
        return Refused([{"field": ".".join(("payload", *path)), "message": why} for path, why in faults])
    field = f"payload.{error.field}" if error.field else "payload"
    return InvalidInput(field, error.message.removeprefix(f"{error.field}: "))


def _bound(name: str, directory: Path | None) -> Binding:
    from mutirao.registry import HandlerConfig, load_registry  # noqa: PLC0415

    found = load_registry(HandlerConfig(directory=str(directory or "")))
    bound = found.bound(name)
    if bound is None:
        known = ", ".join(found.names())
        raise NotFound(
            f"no handler is named {name}", hint=f"There are: {known}. --handlers adds a directory."
        )
    return bound


def _tell(error: Exception) -> None:
    from mutirao.agent.execution import describe  # noqa: PLC0415

    told = json.loads(describe(error))
    click.echo(told.pop("traceback", "").rstrip(), err=True)
    click.echo(f"the attempt failed: {told.pop('type')}: {told.pop('message')}", err=True)
    for name, value in told.items():
        click.echo(f"  {name}: {value}", err=True)
