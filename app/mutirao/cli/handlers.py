"""`mutirao handlers`: what the cluster can do, and what a directory of handlers would add."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from mutirao.cli.completing import complete_handlers
from mutirao.cli.handlers_here import check, run
from mutirao.cli.rest import connected, emit_json, heading, json_option, pairs, table
from mutirao.client.rest import Rest

EPILOG = """\b
Examples:
  mutirao handlers list
  mutirao handlers show checksum
  mutirao handlers check ./handlers
  mutirao handlers run echo '{"message": "hi"}'
"""


@click.group(epilog=EPILOG)
def command() -> None:
    """List and show the cluster's handlers; check and try your own."""


command.add_command(check)
command.add_command(run)


@command.command("list", epilog="\b\nExample:\n  mutirao handlers list --json | jq -r .handlers[].handler")
@json_option
@connected
def list_handlers(nodes: Rest, as_json: bool) -> None:
    """List the handlers and the nodes that serve each."""
    found = nodes.handlers()
    if as_json:
        emit_json(found)
        return
    rows = (
        (one["handler"], ", ".join(one["nodes"]), _state(one), one["description"].partition("\n")[0])
        for one in found["handlers"]
    )
    table(("handler", "nodes", "state", "description"), rows, "no handlers: has an agent started yet?")


@command.command(epilog="\b\nExample:\n  mutirao handlers show checksum --json | jq .payload_schema")
@click.argument("name", shell_complete=complete_handlers)
@json_option
@connected
def show(nodes: Rest, name: str, as_json: bool) -> None:
    """Show a handler's contract: its payload's and its result's schema, and its defaults."""
    found = nodes.handler(name)
    if as_json:
        emit_json(found)
        return
    pairs(
        [
            ("handler", found["handler"]),
            ("description", found["description"]),
            ("state", _state(found.value)),
            ("nodes", ", ".join(found["nodes"])),
            ("fingerprint", found["fingerprint"]),
            *((f"default {name}", _json(value)) for name, value in found["defaults"].items()),
        ]
    )
    for title in ("payload_schema", "result_schema"):
        heading(title.replace("_", " "))
        click.echo(json.dumps(found[title], indent=2, ensure_ascii=False))
    if found["refusals"]:
        heading("not served by")
        table(("node", "why"), ((one["node"], one["message"]) for one in found["refusals"]), "")


def _state(contract: Mapping[str, Any]) -> str:
    """What a reader should know about it in a few words."""
    words = ["served" if contract["nodes"] else "not served now"]
    if contract["refusals"]:
        words.append(f"refused on {len(contract['refusals'])}")
    if contract["unserved_jobs"]:
        words.append(f"{contract['unserved_jobs']} jobs wait under another contract")
    return ", ".join(words)


def _json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
