"""What the verbs that speak REST share: where the server is, JSON or tables, plain words for times."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mutirao.cli.completing import complete_handlers
from mutirao.cli.main import AS_JSON
from mutirao.client import DEFAULT_URL
from mutirao.client.answers import Document
from mutirao.client.rest import Rest
from mutirao.errors import Unavailable

# Where nobody listens, a person is told soon; a node that restarts is back by then.
_PATIENCE = 3.0

F = TypeVar("F", bound=Callable[..., Any])


def _say_json(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
    ctx.meta[AS_JSON] = value
    return value


json_option = click.option(
    "--json", "as_json", is_flag=True, is_eager=True, callback=_say_json,
    help="Print the server's JSON as it came, and errors as problem JSON.",
)  # fmt: skip
_PAGING = (
    click.option(
        "--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="At most so many."
    ),
    click.option("--cursor", help="Continue an earlier list at its `next_cursor`."),
    json_option,
)
_FILTERS = (
    click.option("--handler", shell_complete=complete_handlers, help="Only this handler."),
    click.option("--queue", help="Only this queue."),
)


def connected(function: F) -> F:
    """Gives the verb, as its first argument, the nodes that --url (else MUTIRAO_URL) names."""

    @click.option(
        "--url", metavar="URL[,URL…]", help=f"The nodes' web servers.  [MUTIRAO_URL or {DEFAULT_URL}]"
    )
    @functools.wraps(function)
    def wrapper(url: str | None, **arguments: Any) -> Any:
        with Rest(url, refused=_PATIENCE, waiting=_tell_waiting) as nodes:
            return function(nodes, **arguments)

    return wrapper  # type: ignore[return-value]


def _tell_waiting(why: Unavailable) -> None:
    if sys.stderr.isatty():
        click.echo(f"{why.message}; trying again …", err=True)


def paged(function: F) -> F:
    """What every list can be asked for: a page, JSON; and the nodes."""
    return _with(_PAGING, function)


def listing(function: F) -> F:
    """What every list of jobs can be asked for besides: a handler, a queue."""
    return _with((*_FILTERS, *_PAGING), function)


def gather(fetch: Callable[..., Document], name: str, limit: int, query: Mapping[str, object]) -> Document:
    """Up to `limit` items as one page: a filtered page of the server's may be short before the last."""
    items: list[str] = []
    cursor = query.get("cursor")
    while True:
        page = fetch(**{**query, "cursor": cursor, "limit": limit - len(items)})
        items += (item.text for item in page.items(name))
        cursor = page["next_cursor"]
        if cursor is None or len(items) >= limit:
            break
    text = f'{{"{name}":[{",".join(items)}],"next_cursor":{json.dumps(cursor)}}}'
    return Document(text, msgspec.json.decode(text))


def one_job(function: F) -> F:
    """For a verb about the job named by its id; gives it the nodes and `job_id`."""
    return _with((click.argument("job_id", metavar="ID", type=click.UUID), json_option), function)


def some_jobs(function: F) -> F:
    """For a verb about jobs named by their ids; gives it the nodes and `job_ids`."""
    return _with((click.argument("job_ids", metavar="ID…", nargs=-1, type=click.UUID), json_option), function)


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
        shown.add_row(*(Text(printable(value)) for value in row))
    _console().print(shown if shown.row_count else Text(empty))


def pairs(values: Iterable[tuple[str, object]]) -> None:
    """Prints named values below each other; what is empty is left out."""
    grid = Table.grid(padding=(0, 2))
    for name, value in values:
        if value not in (None, ""):
            grid.add_row(Text(name, style="bold"), Text(printable(value)))
    _console().print(grid)


def heading(text: str) -> None:
    """Prints a heading."""
    _console().print(Text(f"\n{text}", style="bold underline"))


def plain_text(text: str) -> None:
    """Prints lines as they are, less what would drive a terminal."""
    click.echo(printable(text).rstrip("\n"))


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


def printable(value: object) -> str:
    """The value as text that cannot move the reader's cursor or change colours."""
    text = "" if value is None else str(value)
    return "".join(
        char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text
    )
