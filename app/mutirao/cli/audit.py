"""`mutirao audit`: who did what to which job, the newest entry first, or as it happens."""

from __future__ import annotations

from typing import Any

import click

from mutirao.cli.rest import emit_json, gather, moment, more, paged, printable, table
from mutirao.client.answers import Document
from mutirao.client.rest import Rest
from mutirao.client.watching import news

EPILOG = """\b
Examples:
  mutirao audit --limit 20
  mutirao audit --job 0190f3b2-7c1e-7000-8000-000000000000
  mutirao audit --event replayed --json
  mutirao audit --node edge-3 --follow
"""
COLUMNS = ("at", "job", "attempt", "event", "from", "to", "by", "node")


@click.command(epilog=EPILOG)
@click.option("--job", "job_id", type=click.UUID, metavar="ID", help="Only this job.")
@click.option("--event", help="Only this event, such as replayed.")
@click.option("--actor", help="Only what this one did.")
@click.option("--node", metavar="NAME|ID", help="Only what happened on this node.")
@click.option("--follow", is_flag=True, help="Go on with new entries as they come, until Ctrl-C.")
@paged
def command(nodes: Rest, limit: int, cursor: str | None, follow: bool, as_json: bool, **query: Any) -> None:
    """Show the audit log."""
    if follow:
        for entry in news(nodes, query, limit):
            click.echo(entry.text if as_json else _line(entry))
        return
    found = gather(nodes.audit, "entries", limit, {**query, "cursor": cursor})
    if as_json:
        emit_json(found)
        return
    table(COLUMNS, (_row(entry) for entry in found["entries"]), "no entries")
    more(found)


def _row(entry: Document | dict[str, Any]) -> tuple[object, ...]:
    return (
        moment(entry["at"]),
        entry["job_id"],
        entry["attempt"],
        entry["event"],
        entry["from_state"],
        entry["to_state"],
        entry["actor"],
        entry["node_name"],
    )


def _line(entry: Document) -> str:
    at, job, attempt, event, before, after, actor, node = (printable(value) for value in _row(entry))
    step = f"{before} -> {after}" if after else "-"
    return f"{at}  {job}  {attempt:>3}  {event:20}  {step:22}  {actor}  {node}".rstrip()
