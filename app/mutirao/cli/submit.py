"""`mutirao submit`: hands in one job, or a file of them, and waits for their end when asked to."""

from __future__ import annotations

import sys
from typing import Any

import click

from mutirao.cli.completing import complete_handlers
from mutirao.cli.following import follow
from mutirao.cli.jobfile import JobFile
from mutirao.cli.moments import Moment
from mutirao.cli.payload import FORMS, read_payload
from mutirao.cli.progress import following, progress
from mutirao.cli.rest import connected, emit_json, json_option
from mutirao.cli.showing import show_end
from mutirao.client.requests import Request
from mutirao.client.rest import Rest
from mutirao.client.watching import wait as wait_for
from mutirao.errors import InvalidInput

BATCH = 1000

EPILOG = """\b
Examples:
  mutirao submit echo '{"message": "hi"}' --wait
  mutirao submit checksum @request.json --priority 9
  echo '{"seconds": 5}' | mutirao submit sleep - --json
  mutirao submit --file jobs.jsonl --key nightly-2026-11-30 --wait

A line of a file is {"handler": "echo", "payload": {"message": "hi"}}, with any other field of the API.

Exit codes: 0 submitted (with --wait: all succeeded), 1 a job ended dead or cancelled or did not end in time,
2 refused, 3 no answer, 5 the key was used for another request, 130 interrupted.
"""


@click.command(epilog=EPILOG)
@click.argument("handler", required=False, shell_complete=complete_handlers)
@click.argument("payload", metavar=f"[{FORMS}]", required=False)
@click.option("--payload", "named_payload", metavar=FORMS, help="The same.  [default: {}]")
@click.option("--file", metavar="FILE|-", type=click.Path(allow_dash=True),
              help="Submit many: a JSON object a line.")  # fmt: skip
@click.option("--queue", help="Else the handler's default.")
@click.option("--priority", type=click.IntRange(0, 9), help="9 is the most urgent.")
@click.option("--max-retries", type=click.IntRange(0, 100), help="Starts after the first one.")
@click.option("--backoff-base", type=float, help="Seconds; the first retry waits at most this long.")
@click.option("--backoff-cap", type=float, help="Seconds; no retry waits longer.")
@click.option("--job-timeout", type=float, help="Seconds an attempt may run.")
@click.option("--run-at", type=Moment(), metavar="TIME", help="Not before: 2026-01-31T08:00:00Z.")
@click.option("--key", help="The same key never makes a second job; with --file, line n has KEY-n.")
@click.option("--wait", is_flag=True, help="Wait until the job has ended.")
@click.option("--timeout", type=click.FloatRange(min=0), help="Seconds to wait at most.")
@json_option
@connected
def command(
    nodes: Rest,
    handler: str | None,
    payload: str | None,
    named_payload: str | None,
    file: str | None,
    key: str | None,
    wait: bool,
    timeout: float | None,
    as_json: bool,
    **fields: Any,
) -> None:
    """Submit a job for HANDLER and print its id, or all jobs of a file.

    The payload is JSON, @ and the name of a file that holds it, or - for standard input.
    """
    if (handler is None) == (file is None):
        raise click.UsageError("name either a HANDLER or a --file")
    if timeout is not None and not wait:
        raise click.UsageError("--timeout goes with --wait")
    if payload is not None and named_payload is not None:
        raise click.UsageError("the payload is given twice")
    payload = named_payload if payload is None else payload
    if handler is not None:
        _one(nodes, _request(handler, payload, key, **fields), timeout, wait=wait, as_json=as_json)
        return
    if payload is not None:
        raise click.UsageError("with --file, payloads belong into its lines")
    given = [f"--{name.replace('_', '-')}" for name, value in fields.items() if value is not None]
    if given:
        raise click.UsageError(f"with --file, {given[0]} belongs into its lines")
    _many(nodes, JobFile(str(file), key), timeout, wait=wait, as_json=as_json)


def _request(
    handler: str,
    payload: str | None,
    key: str | None,
    *,
    backoff_base: float | None,
    backoff_cap: float | None,
    job_timeout: float | None,
    **fields: Any,
) -> Request:
    said = {"base": backoff_base, "cap": backoff_cap}
    return Request(
        handler=handler,
        payload=read_payload("{}" if payload is None else payload),
        backoff={name: value for name, value in said.items() if value is not None} or None,
        timeout=job_timeout,
        idempotency_key=key,
        **fields,
    )


def _one(nodes: Rest, asked: Request, timeout: float | None, *, wait: bool, as_json: bool) -> None:
    job = nodes.submit(asked.text())
    if not wait:
        emit_json(job) if as_json else click.echo(job["id"])
        return
    with following() as tell:
        ended = wait_for(nodes, job["id"], timeout, tell)
    emit_json(ended) if as_json else show_end(ended.value)
    if ended["state"] != "succeeded":
        sys.exit(1)


def _many(nodes: Rest, jobs: JobFile, timeout: float | None, *, wait: bool, as_json: bool) -> None:
    accepted: list[str] = []
    done = 0
    try:
        with progress("submitted", jobs.count()) as advance:
            for answer in nodes.submit_many(jobs.texts(), BATCH):
                batch = answer.items("jobs")
                done += len(batch)
                advance(len(batch))
                if wait:
                    accepted += (job["id"] for job in batch)
                    continue
                for job in batch:
                    click.echo(job.text if as_json else job["id"])
    except InvalidInput as error:
        raise jobs.located(error) from None
    finally:
        # However it ended: what is in is in.
        click.echo(f"{done} jobs submitted", err=True)
    if wait:
        follow(nodes, accepted, timeout, as_json=as_json)
