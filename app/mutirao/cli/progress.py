"""Progress of long work, on standard error: a bar on a terminal, else now and then a plain line."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from mutirao.cli.showing import how_far
from mutirao.client.answers import Document

_EVERY = 10.0


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Gives a function to be called with how many more are done; `total` None is not known."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(what, total)
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Lines for a terminal go above the bar; lines for a pipe must not be taken from it.
    above = sys.stdout.isatty()
    with Progress(*columns, console=console, transient=True, redirect_stdout=above) as bar:
        task = bar.add_task("", total=total)
        yield lambda more: bar.advance(task, more)


@contextmanager
def following() -> Iterator[Callable[[Document], None]]:
    """Gives a function that tells how far a job is, on a terminal; elsewhere it says nothing."""
    console = Console(stderr=True, markup=False, highlight=False)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("") as status:
        yield lambda job: status.update(Text(how_far(job.value)))


def _lines(what: str, total: int | None) -> Callable[[int], None]:
    done, told = 0, time.monotonic()

    def advance(more: int) -> None:
        nonlocal done, told
        done += more
        if time.monotonic() - told >= _EVERY:
            told = time.monotonic()
            click.echo(f"{what} {done}" + ("" if total is None else f" of {total}"), err=True)

    return advance
