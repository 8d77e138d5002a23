"""What the shell offers for an argument: asked of a node, for a second at most, and never an error."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from mutirao.client.rest import Rest
from mutirao.errors import MutiraoError

_PATIENCE = 1.0


def complete_handlers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The handlers that the cluster has, with what they do."""
    try:
        with Rest(ctx.params.get("url"), timeout=_PATIENCE, refused=0.0) as nodes:
            found = nodes.handlers()["handlers"]
    except MutiraoError:
        return []
    return [
        CompletionItem(one["handler"], help=one["description"].partition("\n")[0] or None)
        for one in found
        if one["handler"].startswith(incomplete)
    ]
