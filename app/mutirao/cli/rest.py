"""What the verbs that speak REST share: where the server is, JSON or tables, plain words for times."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mutirao.client import DEFAULT_URL, Client, Document
from mutirao.settings import environment

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print the server's JSON as it came.")
_LISTING = (
    click.option("--handler", help="Only this handler."),
    click.option("--queue", help="Only this queue."),
    click.option(
        "--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="At most so many."
    ),
    click.option("--cursor", help="Continue an earlier list at its `next_cursor`."),
    json_option,
)


def connected(function: F) -> F:
    """Gives the verb a Client for --url (else MUTIRAO_URL) and MUTIRAO_TOKEN as its first argument."""

    @click.option("--url", metavar="URL", help=f"A node's web server.  [MUTIRAO_URL or {DEFAULT_URL}]")
    @functools.wraps(function)
    def wrapper(url: str | None, **arguments: Any) -> Any:
        address = url or environment("URL") or DEFAULT_URL
        with Client(address, environment("TOKEN")) as client:
            return function(client, **arguments)

    return wrapper  # type: ignore[return-value]


def listing(function: F) -> F:
    """What every list of jobs can be asked for: filters, a page, JSON; and a Client."""
    return _with(_LISTING, function)


def one_job(function: F) -> F:
    """For a verb about the job named by its id; gives it a Client and `job_id`."""
    return _with((click.argument("job_id", metavar="ID", type=click.UUID), json_option), function)


def _with(options: Sequence[Callable[[Any], Any]], function: F) -> F:
    verb = connected(function)
    for option in reversed(options):
        verb = option(verb)
    return verb


def emit_json(document: Document) -> None:
    """Prints the answer exactly as the server sent it."""
    click.echo(document.text)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], empty: str) -> None:
    """Prints rows as a table, or `empty` when there are none; no text is taken for markup."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column, overflow="fold", no_wrap=column in {"id", "state"})
    for row in rows:
        shown.add_row(*(Text(_text(value)) for value in row))
    _console().print(shown if shown.row_count else Text(empty))


def pairs(values: Iterable[tuple[str, object]]) -> None:
    """Prints named values below each other; what is empty is left out."""
    grid = Table.grid(padding=(0, 2))
    for name, value in values:
        if value not in (None, ""):
            grid.add_row(Text(name, style="bold"), Text(_text(value)))
    _console().print(grid)


def heading(text: str) -> None:
    """Prints a heading."""
    _console().print(Text(f"\n{text}", style="bold underline"))


def more(document: Document) -> None:
    """Says how to go on when there is another page."""
    if document["next_cursor"]:
        click.echo(f"more: --cursor {document['next_cursor']}", err=True)


def moment(value: str | None) -> str:
    """A time of the API to the second."""
    return "" if value is None else value[:19].replace("T", " ")


def _console() -> Console:
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        # Scripts and pipes get whole lines, whatever the width of no terminal is.
        console = Console(highlight=False, markup=False, emoji=False, width=200)
    return console


def _text(value: object) -> str:
    text = "" if value is None else str(value)
    # A stored text must not move the reader's cursor or change colours.
    return "".join(
        char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text
    )
