"""`mutirao nodes`: the nodes of the cluster."""

from __future__ import annotations

import click

from mutirao.cli.rest import connected, emit_json, json_option, table
from mutirao.client.rest import Rest


@click.command(epilog="\b\nExample:\n  mutirao nodes --json")
@json_option
@connected
def command(nodes: Rest, as_json: bool) -> None:
    """List the nodes, their roles and the age of their last beat."""
    found = nodes.nodes()
    if as_json:
        emit_json(found)
        return
    rows = (
        (
            node["name"],
            node["role"],
            node["status"],
            "" if node["beat_age"] is None else f"{node['beat_age']:.1f} s",
            node["slots"],
            node["incarnation"],
            node["id"],
            node["url"],
        )
        for node in found["nodes"]
    )
    table(("name", "role", "status", "last beat", "slots", "incarnation", "id", "url"), rows, "no nodes")
