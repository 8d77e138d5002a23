"""`mutirao dead-letter`: jobs whose retries are used up, and what to do with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

import click

from mutirao.cli.completing import complete_handlers
from mutirao.cli.deciding import decide, decide_all
from mutirao.cli.rest import (
    emit_json,
    gather,
    listing,
    moment,
    more,
    one_job,
    some_jobs,
    table,
)
from mutirao.cli.showing import failure, show_job
from mutirao.client.rest import Rest

F = TypeVar("F", bound=Callable[..., Any])

EPILOG = """\b
Examples:
  mutirao dead-letter list
  mutirao dead-letter show ID
  mutirao dead-letter replay ID
  mutirao dead-letter replay --handler checksum --all
  mutirao dead-letter discard ID
"""


@click.group(epilog=EPILOG)
def command() -> None:
    """List, show, replay or discard dead jobs."""


@command.command("list", epilog="\b\nExample:\n  mutirao dead-letter list --handler checksum --json")
@click.option("--error-type", help="Only what died of this error, such as ValueError.")
@listing
def list_dead(nodes: Rest, as_json: bool, limit: int, **query: object) -> None:
    """List dead letters, the latest first."""
    found = gather(nodes.dead_letters, "dead_letters", limit, query)
    if as_json:
        emit_json(found)
        return
    rows = (
        (
            letter["id"],
            letter["handler"],
            letter["queue"],
            letter["attempt"],
            moment(letter["finished_at"]),
            failure(letter["error"])[:200],
        )
        for letter in found["dead_letters"]
    )
    table(("id", "handler", "queue", "attempts", "died", "error"), rows, "no dead letters")
    more(found)


@command.command(epilog="\b\nExample:\n  mutirao dead-letter show ID")
@one_job
def show(nodes: Rest, job_id: object, as_json: bool) -> None:
    """Show a dead job with every attempt's error."""
    found = nodes.dead_letter(str(job_id))
    if as_json:
        emit_json(found)
    else:
        show_job(found.value)


def _deciding(function: F) -> F:
    """What replaying and discarding can be told: ids, or which ones."""
    options = (
        click.option("--handler", shell_complete=complete_handlers, help="With --all: only this handler."),
        click.option("--queue", help="With --all: only this queue."),
        click.option("--error-type", help="With --all: only what died of this error."),
        click.option("--all", "every", is_flag=True, help="Every dead letter there is now."),
        click.option("--yes", is_flag=True, help="Do not ask."),
    )
    verb = some_jobs(function)
    for option in reversed(options):
        verb = option(verb)
    return verb


@command.command(
    epilog="\b\nExamples:\n  mutirao dead-letter replay ID ID\n"
    "  mutirao dead-letter replay --handler checksum --all --yes"
)
@_deciding
def replay(nodes: Rest, **given: Any) -> None:
    """Queue dead jobs again, with a full set of attempts on top of those they had."""
    _decide(nodes, "replay", **given)


@command.command(
    epilog="\b\nExamples:\n  mutirao dead-letter discard ID\n"
    "  mutirao dead-letter discard --error-type ConnectError --all"
)
@_deciding
def discard(nodes: Rest, **given: Any) -> None:
    """Put dead jobs aside for good; they stay readable until retention removes them."""
    _decide(nodes, "discard", **given)


def _decide(
    nodes: Rest, verb: str, *, job_ids: tuple[UUID, ...], every: bool, yes: bool, as_json: bool, **wanted: Any
) -> None:
    if every == bool(job_ids):
        raise click.UsageError("name either IDs or --all")
    if job_ids and any(wanted.values()):
        raise click.UsageError("--handler, --queue and --error-type go with --all")
    if every:
        decide_all(nodes, verb, wanted, yes=yes, as_json=as_json)
    else:
        decide(nodes, verb, [str(one) for one in dict.fromkeys(job_ids)], as_json=as_json)
