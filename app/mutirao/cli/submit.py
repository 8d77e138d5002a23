"""`mutirao submit`: hands in one job, and waits for its end when asked to."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from mutirao.cli.rest import connected, emit_json, json_option, pairs
from mutirao.client import Client, Document
from mutirao.errors import InvalidInput

EPILOG = """\b
Examples:
  mutirao submit echo --payload '{"message": "hi"}' --wait
  mutirao submit checksum --payload @request.json --priority 9
  echo '{"seconds": 5}' | mutirao submit sleep --payload - --json

Exit codes: 0 submitted (with --wait: succeeded), 1 the job ended dead or cancelled or did not end in time,
2 refused, 3 no answer, 5 the key was used for another request.
"""


@click.command(epilog=EPILOG)
@click.argument("handler")
@click.option("--payload", default="{}", metavar="JSON|@FILE|-", help="The payload.  [default: {}]")
@click.option("--queue", help="Else the handler's default.")
@click.option("--priority", type=click.IntRange(0, 9), help="9 is the most urgent.")
@click.option("--max-retries", type=click.IntRange(0, 100), help="Starts after the first one.")
@click.option("--backoff-base", type=float, help="Seconds; the first retry waits at most this long.")
@click.option("--backoff-cap", type=float, help="Seconds; no retry waits longer.")
@click.option("--job-timeout", type=float, help="Seconds an attempt may run.")
@click.option("--run-at", metavar="TIME", help="Not before: 2026-01-31T08:00:00Z.")
@click.option("--key", "idempotency_key", help="The same key never makes a second job.")
@click.option("--wait", is_flag=True, help="Wait until the job has ended.")
@click.option("--timeout", "wait_timeout", type=click.FloatRange(min=0), help="Seconds to wait at most.")
@json_option
@connected
def command(
    client: Client,
    handler: str,
    payload: str,
    backoff_base: float | None,
    backoff_cap: float | None,
    job_timeout: float | None,
    wait: bool,
    wait_timeout: float | None,
    as_json: bool,
    **fields: object,
) -> None:
    """Submit a job for HANDLER and print its id."""
    backoff = {
        name: value for name, value in (("base", backoff_base), ("cap", backoff_cap)) if value is not None
    }
    text = read_payload(payload)
    job = client.submit(handler, text, timeout=job_timeout, backoff=backoff or None, **fields)
    if not wait:
        emit_json(job) if as_json else click.echo(job["id"])
        return
    ended = client.wait(job["id"], wait_timeout)
    emit_json(ended) if as_json else _show_end(ended)
    if ended["state"] != "succeeded":
        sys.exit(1)


def read_payload(given: str) -> str:
    """The payload's text: as given, from a file (`@name`), or from standard input (`-`)."""
    if given == "-":
        text = sys.stdin.read()
    elif given.startswith("@"):
        try:
            text = Path(given[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput("payload", f"{given[1:]}: {error}") from None
    else:
        text = given
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            "payload", f"is not JSON: {error}", hint='for example \'{"message": "hi"}\''
        ) from None
    return text


def _show_end(job: Document) -> None:
    shown = job["error"] if job["state"] == "dead" else job["result"]
    pairs(
        [
            ("id", job["id"]),
            ("state", job["state"]),
            ("attempts", job["attempt"]),
            ("node", job["node_name"]),
            ("error" if job["state"] == "dead" else "result", json.dumps(shown, ensure_ascii=False)),
        ]
    )
