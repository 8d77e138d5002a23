"""A job as people read it: what it is, why it waits, what its attempts came to, every step of its life."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mutirao.cli.rest import heading, moment, pairs, plain_text, printable, table

_PLAIN = ("id", "handler", "queue", "priority", "max_retries", "timeout", "idempotency_key", "submitted_by")
_TIMES = ("run_at", "created_at", "started_at", "finished_at", "cancel_requested_at", "discarded_at")
# Said in other words, or not for a line.
_TOLD = frozenset({"type", "message", "traceback", "exit_status", "signal"})
_LAST_LINES = 10


def show_job(job: Mapping[str, Any]) -> None:
    """Prints everything about one job."""
    pairs(
        [
            ("state", state_of(job)),
            *_held_up(job),
            *((name, job[name]) for name in _PLAIN),
            ("node", job["node_name"]),
            *((name, moment(job[name])) for name in _TIMES),
            ("progress", _progress(job)),
            ("payload", to_text(job["payload"])),
            ("result", None if job["result"] is None else to_text(job["result"])),
            ("error", failure(job["error"])),
        ]
    )
    if traceback := (job["error"] or {}).get("traceback"):
        heading("traceback")
        plain_text(traceback)
    if job["error"] and (output := _end_of_output(job, _LAST_LINES)):
        heading("end of the output")
        plain_text(output)
    heading("attempts")
    table(
        ("attempt", "node", "started", "outcome", "seconds", "error"),
        map(_attempt, job["attempts"]),
        "none yet",
    )
    heading("history")
    table(("at", "attempt", "event", "from", "to", "by"), map(_step, job["audit"]), "none")


def show_end(job: Mapping[str, Any]) -> None:
    """Prints how a job has ended, in a few lines."""
    died = job["error"] is not None
    ended = ("error", failure(job["error"])) if died else ("result", to_text(job["result"]))
    pairs(
        [
            ("id", job["id"]),
            ("state", job["state"]),
            ("attempts", job["attempt"]),
            ("node", job["node_name"]),
            ended,
            ("output", _end_of_output(job, 1) if died else ""),
        ]
    )


def how_far(job: Mapping[str, Any]) -> str:
    """Where a job is, in a line."""
    place = f"on {job['node_name']}" if job["node_name"] else ""
    attempt = f"attempt {job['attempt']}" if job["attempt"] else ""
    return printable(", ".join(filter(None, (state_of(job), place, attempt, _progress(job)))))


def state_of(job: Mapping[str, Any]) -> str:
    """The state in a word."""
    return "cancelling" if job["cancelling"] else str(job["state"])


def failure(error: Mapping[str, Any] | None) -> str:
    """An error in one line: its type, its message, and what else it says about itself."""
    if error is None:
        return ""
    told = [str(error[name]) for name in ("type", "message") if error.get(name)]
    more = ", ".join(f"{name} {value}" for name, value in error.items() if name not in _TOLD)
    return ": ".join(told) + (f" ({more})" if more else "")


def to_text(value: object) -> str:
    """A value of the API as JSON."""
    return json.dumps(value, ensure_ascii=False)


def _end_of_output(job: Mapping[str, Any], lines: int) -> str:
    """The last lines that the last attempt wrote: a program says there why it failed."""
    output = (job["attempts"][-1]["output"] if job["attempts"] else None) or ""
    return "\n".join(output.splitlines()[-lines:])


def _held_up(job: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Why it waits, when that is because of its contract."""
    if job["served"] or job["state"] not in ("queued", "scheduled", "waiting"):
        return []
    see = f"`mutirao handlers show {job['handler']}`"
    return [("served", f"false: no live node serves its contract, see {see}")]


def _progress(job: Mapping[str, Any]) -> str:
    if job["progress"] is None:
        return ""
    return f"{job['progress']:.0%} {job['progress_note'] or ''}".rstrip()


def _attempt(one: Mapping[str, Any]) -> tuple[object, ...]:
    seconds = "" if one["seconds"] is None else f"{one['seconds']:.3f}"
    outcome = one["outcome"] or "running"
    return (
        one["attempt"],
        one["node_name"],
        moment(one["started_at"]),
        outcome,
        seconds,
        failure(one["error"])[:200],
    )


def _step(one: Mapping[str, Any]) -> tuple[object, ...]:
    return moment(one["at"]), one["attempt"], one["event"], one["from_state"], one["to_state"], one["actor"]
