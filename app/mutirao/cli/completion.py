"""`mutirao completion`: what makes a shell complete verbs, options, handlers and states."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

EPILOG = """\b
Examples:
  mutirao completion bash > ~/.local/share/bash-completion/completions/mutirao
  mutirao completion zsh > "${fpath[1]}/_mutirao"
  mutirao completion fish > ~/.config/fish/completions/mutirao.fish
"""


@click.command(epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script that completes `mutirao` in SHELL."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "mutirao", "_MUTIRAO_COMPLETE").source())
