"""`mutirao up`: a whole cluster on this machine, until Ctrl-C."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import click

from mutirao.cli import demo
from mutirao.embedded.cluster import Cluster, Options
from mutirao.embedded.directory import ClusterDirectory
from mutirao.embedded.signals import Signals
from mutirao.settings import default_data_dir

_DIRECTORY = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.option(
    "--data", type=_DIRECTORY, help="Where the cluster keeps its data.  [default: this user's state]"
)
@click.option("--nodes", type=click.IntRange(1, 64), default=3, show_default=True)
@click.option(
    "--port", type=click.IntRange(1, 65000), default=8080, show_default=True, help="Of the first node."
)
@click.option("--postgres", envvar="MUTIRAO_POSTGRES", help="Use this PostgreSQL (a DSN), start none.")
@click.option("--redis", envvar="MUTIRAO_REDIS", help="Use this Redis (a URL), start none.")
@click.option("--slots", type=click.IntRange(1, 1024), help="Runner processes of each node.")
@click.option("--checksum-root", "roots", type=_DIRECTORY, multiple=True, help="Where `checksum` may read.")
@click.option("--no-restart", is_flag=True, help="Leave a dead agent dead.")
@click.option("--demo", "tree", type=click.Path(path_type=Path, file_okay=False, exists=True),
              help="Hash every file of this tree as a demonstration.")  # fmt: skip
def command(
    data: Path | None, nodes: int, port: int, postgres: str | None, redis: str | None, slots: int | None,
    roots: tuple[Path, ...], no_restart: bool, tree: Path | None,
) -> None:  # fmt: skip
    """Run a whole cluster on this machine until Ctrl-C; a second Ctrl-C cuts the drain short."""
    signals = Signals()
    directory = ClusterDirectory(data or default_data_dir())
    if tree is not None:
        roots = (*roots, tree)
    options = Options(
        nodes=nodes, port=port, postgres=postgres, redis=redis, slots=slots, restart=not no_restart,
        checksum_roots=tuple(root.resolve() for root in roots),
    )  # fmt: skip

    def ready(urls: list[str]) -> None:
        _announce(directory, urls)
        if tree is not None:
            # A daemon: whatever it does, the main thread must be free to keep the cluster running.
            threading.Thread(target=demo.run, args=(urls, tree.resolve()), daemon=True).start()

    with directory.held(port):
        _say(f"Starting {nodes} nodes, data in {directory.path}")
        Cluster(directory, options, signals, _say).run(ready)
        _say("Stopped.")


def _say(text: str) -> None:
    # A terminal that is gone, or a log on a full disk, must not end the cluster.
    with contextlib.suppress(OSError):
        click.echo(text)


def _announce(directory: ClusterDirectory, urls: list[str]) -> None:
    _say("Ready:")
    for number, url in enumerate(urls, start=1):
        _say(f"  node-{number}  {url}")
    _say(f"Logs: {directory.logs}. Ctrl-C stops everything; the jobs stay.")
