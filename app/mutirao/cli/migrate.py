"""`mutirao migrate`: brings the schema up to date."""

from __future__ import annotations

from pathlib import Path

import click

from mutirao.settings import load_settings


@click.command("migrate")
@click.option("--config", type=click.Path(path_type=Path), help="The node's mutirao.toml.")
@click.option("--postgres", help="The database to migrate, instead of the configured one.")
def command(config: Path | None, postgres: str | None) -> None:
    """Apply every missing schema revision (forward only; safe to run on all nodes at once).

    \b
    Examples:
      mutirao migrate --config /etc/mutirao/mutirao.toml
      MUTIRAO_POSTGRES=postgresql://… MUTIRAO_REDIS=redis://… mutirao migrate
    """
    from mutirao.store.migrate import migrate  # noqa: PLC0415 - imported only when used

    dsn = postgres or load_settings(config, {}).postgres.get_secret_value()
    before, now = migrate(dsn)
    click.echo(f"schema revision {now}" + ("" if before == now else f" (was {before or 'empty'})"))
