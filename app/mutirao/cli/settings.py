"""`mutirao settings`: check a file as at start, show what is in force, print an example."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from mutirao.cli.rest import table
from mutirao.settings import Given, Settings, gather, load_settings

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group()
def command() -> None:
    """Check settings, show them, or print an example file."""


@command.command()
@click.argument("file", type=_FILE)
def check(file: Path) -> None:
    """Exits 0 when FILE, with the environment over it, could start a node.

    \b
    Example, in Ansible:
      validate: mutirao settings check %s
    """
    settings = load_settings(file)
    click.echo(f"{file}: fine (node {settings.node_name}, {settings.slots} slots, {settings.web_url})")


@command.command()
@click.option("--config", type=_FILE, help="The node's mutirao.toml.")
def show(config: Path | None) -> None:
    """Show every setting that is in force and where it comes from; secrets stay hidden.

    \b
    Example:
      MUTIRAO_SLOTS=8 mutirao settings show --config /etc/mutirao/mutirao.toml
    """
    settings, given = load_settings(config), gather(config)
    rows = [(name, _shown(settings, name), _origin(given, name)) for name in Settings.model_fields]
    table(("setting", "value", "from"), rows, "")


@command.command()
def example() -> None:
    """Print a commented mutirao.toml with every setting.

    \b
    Example:
      (umask 077; mutirao settings example > /etc/mutirao/mutirao.toml)
    """
    from mutirao.settings.example import example as text  # noqa: PLC0415 - imported only when used

    click.echo(text(), nl=False)


def _shown(settings: Settings, name: str) -> str:
    value = getattr(settings, name)
    if hasattr(value, "get_secret_value"):
        return "(hidden)"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _origin(given: Mapping[str, Given], name: str) -> str:
    return given[name].origin if name in given else "default"
