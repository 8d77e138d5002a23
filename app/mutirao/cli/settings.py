"""`mutirao settings check FILE`: the same checks as at start, for people and for Ansible's `validate=`."""

from __future__ import annotations

from pathlib import Path

import click

from mutirao.settings import load_settings


@click.group()
def command() -> None:
    """Check a settings file."""


@command.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def check(file: Path) -> None:
    """Exits 0 when FILE, with the environment over it, could start a node."""
    settings = load_settings(file)
    click.echo(f"{file}: fine (node {settings.node_name}, {settings.slots} slots, {settings.web_url})")
