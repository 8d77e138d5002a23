"""`mutirao web`: one node's web server."""

from __future__ import annotations

from pathlib import Path

import click

from mutirao import logs
from mutirao.settings import load_settings


@click.command()
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help="The node's mutirao.toml.")
def command(config: Path | None) -> None:
    """Run one node's web server: status page, REST API, health and metrics.

    \b
    Exit status: 0 ended; 2 its settings are wrong; 5 its port is taken.

    \b
    Example:
      mutirao web --config /etc/mutirao/mutirao.toml
    """
    from mutirao.web.server import serve  # noqa: PLC0415 - Flask and gunicorn only load when they serve

    settings = load_settings(config)
    logs.configure(settings.log_level, json=settings.log_json)
    serve(settings)
