"""`mutirao agent`: runs this node's agent in the foreground."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mutirao.settings import load_settings

TWIN = 5


@click.command("agent")
@click.option("--config", type=click.Path(path_type=Path), help="The node's mutirao.toml.")
def command(config: Path | None) -> None:
    """Run this node's agent until SIGTERM, then drain and leave.

    \b
    Exit status: 0 drained; 2 its settings or handlers are wrong; 3 superseded by a
    newer incarnation; 4 its guard died; 5 another live agent has this identity.

    \b
    Example:
      mutirao agent --config /etc/mutirao/mutirao.toml
    """
    from mutirao import failpoints, logs  # noqa: PLC0415 - other verbs must start fast
    from mutirao.agent.agent import Agent  # noqa: PLC0415
    from mutirao.errors import AlreadyRunning  # noqa: PLC0415

    settings = load_settings(config, {})
    logs.configure(settings.log_level, json=settings.log_json)
    failpoints.configure(settings.failpoints)
    try:
        status = Agent(settings).run()
    except AlreadyRunning as error:
        click.echo(f"mutirao agent: {error.message}. {error.hint}", err=True)
        status = TWIN
    sys.exit(status)
