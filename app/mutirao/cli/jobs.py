"""`mutirao jobs`: list, show and cancel jobs."""

from __future__ import annotations

import json
from typing import Any

import click

from mutirao.cli.rest import (
    emit_json,
    heading,
    listing,
    moment,
    more,
    one_job,
    pairs,
    table,
)
from mutirao.client import Client
from mutirao.domain.job import State

EPILOG = """\b
Examples:
  mutirao jobs list --state running
  mutirao jobs show 0190f3b2-7c1e-7000-8000-000000000000
  mutirao jobs cancel 0190f3b2-7c1e-7000-8000-000000000000
"""


@click.group(epilog=EPILOG)
def command() -> None:
    """List, show or cancel jobs."""


@command.command("list", epilog="\b\nExample:\n  mutirao jobs list --handler checksum --limit 100 --json")
@click.option("--state", type=click.Choice([state.value for state in State]), help="Only this state.")
@listing
def list_jobs(client: Client, as_json: bool, **query: object) -> None:
    """List jobs, the newest first."""
    found = client.jobs(**query)
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
def show(client: Client, job_id: object, as_json: bool) -> None:
    """Show a job with its attempts and its history."""
    found = client.job(str(job_id))
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


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _message(error: dict[str, Any] | None) -> str:
    return "" if error is None else f"{error.get('type', '')}: {error.get('message', '')}"[:200]


@command.command(epilog="\b\nExample:\n  mutirao jobs cancel ID")
@one_job
def cancel(client: Client, job_id: object, as_json: bool) -> None:
    """Cancel a live job; a running one by killing its runner."""
    done = client.cancel(str(job_id))
    emit_json(done) if as_json else click.echo(f"{done['id']} {done['state']}")
