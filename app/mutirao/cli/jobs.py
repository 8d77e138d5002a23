"""`mutirao jobs`: list, show and cancel jobs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import click

from mutirao.cli.following import follow
from mutirao.cli.moments import Moment
from mutirao.cli.rest import (
    connected,
    emit_json,
    gather,
    json_option,
    listing,
    moment,
    more,
    one_job,
    printable,
    table,
)
from mutirao.cli.showing import show_job, state_of
from mutirao.client.rest import Rest
from mutirao.domain.job import State
from mutirao.errors import InvalidInput, NotFound

EPILOG = """\b
Examples:
  mutirao jobs list --state running
  mutirao jobs show 0190f3b2-7c1e-7000-8000-000000000000
  mutirao jobs cancel 0190f3b2-7c1e-7000-8000-000000000000
  mutirao jobs wait 0190f3b2-7c1e-7000-8000-000000000000 --timeout 60
  mutirao jobs output 0190f3b2-7c1e-7000-8000-000000000000
"""


@click.group(epilog=EPILOG)
def command() -> None:
    """List, show, follow or cancel jobs."""


@command.command("list", epilog="\b\nExample:\n  mutirao jobs list --handler checksum --limit 100 --json")
@click.option("--state", "states", type=click.Choice([state.value for state in State]), multiple=True,
              help="Only this state; may be said several times.")  # fmt: skip
@click.option("--created-after", type=Moment(), metavar="TIME", help="Only jobs submitted after it.")
@click.option("--created-before", type=Moment(), metavar="TIME", help="Only jobs submitted before it.")
@listing
def list_jobs(nodes: Rest, as_json: bool, states: tuple[str, ...], limit: int, **query: Any) -> None:
    """List jobs, the newest first."""
    for name in ("created_after", "created_before"):
        query[name] = query[name] and query[name].isoformat()
    found = gather(nodes.jobs, "jobs", limit, {"state": ",".join(states) or None, **query})
    if as_json:
        emit_json(found)
        return
    columns = ("id", "state", "handler", "queue", "priority", "attempt", "node", "created")
    table(columns, (_row(job) for job in found["jobs"]), "no jobs")
    more(found)


def _row(job: dict[str, Any]) -> tuple[object, ...]:
    return (
        job["id"],
        state_of(job),
        job["handler"],
        job["queue"],
        job["priority"],
        f"{job['attempt']}/{job['max_attempts']}",
        job["node_name"],
        moment(job["created_at"]),
    )


@command.command(epilog="\b\nExample:\n  mutirao jobs show ID --json | jq .result")
@one_job
def show(nodes: Rest, job_id: object, as_json: bool) -> None:
    """Show a job with its attempts and its history."""
    found = nodes.job(str(job_id))
    if as_json:
        emit_json(found)
    else:
        show_job(found.value)


@command.command(epilog="\b\nExample:\n  mutirao jobs cancel ID")
@one_job
def cancel(nodes: Rest, job_id: object, as_json: bool) -> None:
    """Cancel a live job; a running one by killing its runner."""
    done = nodes.cancel(str(job_id))
    emit_json(done) if as_json else click.echo(f"{done['id']} {done['state']}")


@command.command(
    "wait",
    epilog="\b\nExamples:\n  mutirao jobs wait ID ID --timeout 60\n"
    "  mutirao jobs list --state queued --json | jq -r '.jobs[].id' | mutirao jobs wait -",
)
@click.option("--timeout", type=click.FloatRange(min=0), help="Seconds to wait at most.")
@click.argument("ids", metavar="ID…|-", nargs=-1, required=True)
@json_option
@connected
def wait(nodes: Rest, ids: tuple[str, ...], timeout: float | None, as_json: bool) -> None:
    """Wait until jobs have ended; `-` reads their ids from standard input.

    Exits 0 when all succeeded, 1 when one ended dead or cancelled, or not in time.
    """
    follow(nodes, list(_ids(ids)), timeout, as_json=as_json)


def _ids(given: tuple[str, ...]) -> Iterator[str]:
    for one in sys.stdin.read().split() if given == ("-",) else given:
        try:
            yield str(UUID(one))
        except ValueError:
            raise InvalidInput("ID", f"{one!r} is no job's id") from None


@command.command("output", epilog="\b\nExample:\n  mutirao jobs output ID --attempt 1 > attempt-1.log")
@click.option("--attempt", type=click.IntRange(min=1), help="Which attempt.  [default: the last]")
@one_job
def output(nodes: Rest, job_id: object, attempt: int | None, as_json: bool) -> None:
    """Print what an attempt wrote to its standard output and error, as far as it is kept."""
    job = nodes.job(str(job_id))
    found = next((a for a in reversed(job.items("attempts")) if attempt in (None, a["attempt"])), None)
    if found is None:
        raise NotFound(
            "the job has not been started" if attempt is None else f"there is no attempt {attempt}"
        )
    if as_json:
        emit_json(found)
        return
    if found["output_dropped"]:
        click.echo(f"{found['output_dropped']} bytes before this were not kept", err=True)
    text = found["output"] or ""
    # A terminal must not be driven by what a handler wrote; a file gets it as it is.
    shown = printable(text) if sys.stdout.isatty() else text
    click.echo(shown, nl=bool(text) and not text.endswith("\n"), color=True)
