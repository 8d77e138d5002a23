"""`mutirao dead-letter`: jobs whose retries are used up, and what to do with them."""

from __future__ import annotations

import click

from mutirao.cli.jobs import show_job
from mutirao.cli.rest import (
    emit_json,
    listing,
    moment,
    more,
    one_job,
    table,
)
from mutirao.client import Client

EPILOG = """\b
Examples:
  mutirao dead-letter list
  mutirao dead-letter show ID
  mutirao dead-letter replay ID
  mutirao dead-letter discard ID
"""


@click.group(epilog=EPILOG)
def command() -> None:
    """List, show, replay or discard dead jobs."""


@command.command("list", epilog="\b\nExample:\n  mutirao dead-letter list --handler checksum --json")
@listing
def list_dead(client: Client, as_json: bool, **query: object) -> None:
    """List dead letters, the latest first."""
    found = client.dead_letters(**query)
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
            (letter["error"] or {}).get("message", ""),
        )
        for letter in found["dead_letters"]
    )
    table(("id", "handler", "queue", "attempts", "died", "error"), rows, "no dead letters")
    more(found)


@command.command(epilog="\b\nExample:\n  mutirao dead-letter show ID")
@one_job
def show(client: Client, job_id: object, as_json: bool) -> None:
    """Show a dead job with every attempt's error."""
    found = client.dead_letter(str(job_id))
    if as_json:
        emit_json(found)
    else:
        show_job(found.value)


@command.command(epilog="\b\nExample:\n  mutirao dead-letter replay ID")
@one_job
def replay(client: Client, job_id: object, as_json: bool) -> None:
    """Queue a dead job again, with a full set of attempts on top of those it had."""
    done = client.replay(str(job_id))
    emit_json(done) if as_json else click.echo(f"{done['id']} {done['state']}")


@command.command(epilog="\b\nExample:\n  mutirao dead-letter discard ID")
@one_job
def discard(client: Client, job_id: object, as_json: bool) -> None:
    """Put a dead job aside for good; it stays readable until retention removes it."""
    done = client.discard(str(job_id))
    emit_json(done) if as_json else click.echo(f"{done['id']} discarded")
