"""`mutirao jobs`: list, show and cancel jobs."""

from __future__ import annotations

import json
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
    heading,
    json_option,
    listing,
    moment,
    more,
    one_job,
    pairs,
    printable,
    table,
)
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


def state_of(job: dict[str, Any]) -> str:
    """The state as people read it."""
    return "cancelling" if job["cancelling"] else str(job["state"])


@command.command(epilog="\b\nExample:\n  mutirao jobs show ID --json | jq .result")
@one_job
def show(nodes: Rest, job_id: object, as_json: bool) -> None:
    """Show a job with its attempts and its history."""
    found = nodes.job(str(job_id))
    if as_json:
        emit_json(found)
    else:
        show_job(found.value)


def show_job(job: dict[str, Any]) -> None:
    """Prints everything about one job."""
    plain = (
        "id",
        "handler",
        "queue",
        "priority",
        "max_retries",
        "timeout",
        "idempotency_key",
        "submitted_by",
    )
    times = ("run_at", "created_at", "started_at", "finished_at", "cancel_requested_at", "discarded_at")
    values = ("payload", "result", "error")
    pairs(
        [
            ("state", state_of(job)),
            *_held_up(job),
            *((name, job[name]) for name in plain),
            ("node", job["node_name"]),
            *((name, moment(job[name])) for name in times),
            *((name, _json(job[name])) for name in values if name == "payload" or job[name] is not None),
        ]
    )
    heading("attempts")
    table(
        ("attempt", "node", "started", "outcome", "seconds", "error"),
        ((a["attempt"], a["node_name"], moment(a["started_at"]), a["outcome"] or "running", a["seconds"],
          _message(a["error"])) for a in job["attempts"]),
        "none yet",
    )  # fmt: skip
    heading("history")
    table(
        ("at", "attempt", "event", "from", "to", "by"),
        ((moment(e["at"]), e["attempt"], e["event"], e["from_state"], e["to_state"], e["actor"])
         for e in job["audit"]),
        "none",
    )  # fmt: skip


def _held_up(job: dict[str, Any]) -> list[tuple[str, str]]:
    """Why it waits, when that is because of its contract."""
    if job["served"] or job["state"] not in ("queued", "scheduled", "waiting"):
        return []
    see = f"`mutirao handlers show {job['handler']}`"
    return [("served", f"false: no live node serves its contract, see {see}")]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _message(error: dict[str, Any] | None) -> str:
    return "" if error is None else f"{error.get('type', '')}: {error.get('message', '')}"[:200]


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
