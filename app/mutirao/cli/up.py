"""`mutirao up`: a whole cluster on this machine, until Ctrl-C."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from mutirao.cli import demo
from mutirao.cli.main import INTERRUPTED
from mutirao.client import DEFAULT_URL
from mutirao.embedded.cluster import Cluster, Options
from mutirao.embedded.directory import ClusterDirectory
from mutirao.embedded.ports import HOST
from mutirao.embedded.signals import Signals
from mutirao.settings import default_data_dir, load_settings

_DIRECTORY = click.Path(path_type=Path, file_okay=False)
_TREE = click.Path(path_type=Path, file_okay=False, exists=True, resolve_path=True)
_PROGRAM = click.Path(path_type=Path, dir_okay=False, exists=True, executable=True)


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
@click.option("--redis-prefix", envvar="MUTIRAO_REDIS_PREFIX",
              help="Begins every key in Redis.  [default with --redis: from the database's id]")  # fmt: skip
@click.option("--slots", type=click.IntRange(1, 1024), help="Runner processes of each node.")
@click.option("--handlers", "handlers_dir", type=_TREE, help="Serve the handlers in this directory, too.")
@click.option("--allow-command", "commands", type=_PROGRAM, multiple=True,
              help="A program that `command` may run; may be repeated.")  # fmt: skip
@click.option("--allow-http-host", "http_hosts", multiple=True, metavar="HOST",
              help="A host that `http` may ask; may be repeated.")  # fmt: skip
@click.option(
    "--checksum-root", "checksum_roots", type=_DIRECTORY, multiple=True, help="Where `checksum` may read."
)
@click.option("--no-restart", is_flag=True, help="Leave a dead agent dead.")
@click.option("--demo", "tree", type=_TREE, help="Hash every file of this tree as a demonstration.")
def command(
    data: Path | None, nodes: int, port: int, postgres: str | None, redis: str | None, no_restart: bool,
    tree: Path | None, **settings: Any,
) -> None:  # fmt: skip
    """Run a whole cluster on this machine until Ctrl-C; a second Ctrl-C cuts the drain short.

    Everything is kept in the data directory, and is there again the next time. A changed handler is served
    after a restart: Ctrl-C, then `mutirao up` again.

    \b
    Examples:
      mutirao up
      mutirao up --nodes 8 --port 9080 --data ~/cluster
      mutirao up --handlers ./handlers --allow-command /usr/bin/rsync --allow-http-host example.org
      MUTIRAO_POSTGRES=postgresql://… MUTIRAO_REDIS=redis://… mutirao up
    """
    signals = Signals()
    if tree is not None:
        settings["checksum_roots"] = (*settings["checksum_roots"], tree)
    shared = {name: _plain(value) for name, value in settings.items() if value}
    _check(shared, postgres, redis)
    directory = ClusterDirectory(data or default_data_dir())
    options = Options(nodes, port, postgres, redis, restart=not no_restart, settings=shared)

    cluster = Cluster(directory, options, signals, _say)

    def ready(urls: list[str]) -> None:
        _announce(directory, urls, cluster.agents)
        if tree is not None:
            # A daemon: whatever it does, the main thread must be free to keep the cluster running.
            threading.Thread(target=demo.run, args=(urls, tree), daemon=True).start()

    with directory.held(port):
        _say(f"Starting {nodes} nodes, data in {directory.path}")
        cluster.run(ready)
        _say("Stopped.")


def _check(shared: Mapping[str, object], postgres: str | None, redis: str | None) -> None:
    """Refuses what no node could start with, before anything starts."""
    # What each node is told by us hides the environment's; addresses of our own servers are not known yet.
    ours = {"web_host": HOST, "web_port": 1, "node_name": "node"}
    stores = {"postgres": postgres or "postgresql://", "redis": redis or "unix://"}
    directory = load_settings(None, {**ours, **stores, **shared}).handlers_dir
    if directory is not None:
        _check_handlers(directory)


def _check_handlers(directory: Path) -> None:
    """Says what is wrong with the handlers as each agent would, and exits as it would."""
    # In a process of its own: what handlers import and start must not stay in the supervisor.
    argv = [sys.executable, "-m", "mutirao", "handlers", "check", str(directory)]
    status = subprocess.run(argv, stdout=subprocess.DEVNULL, check=False).returncode
    if status:
        sys.exit(INTERRUPTED if status < 0 else status)


def _plain(value: Any) -> Any:
    """As a settings file has it: lists, absolute paths."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value.absolute()) if isinstance(value, Path) else value


def _say(text: str) -> None:
    # A terminal that is gone, or a log on a full disk, must not end the cluster.
    with contextlib.suppress(OSError):
        click.echo(text)


def _announce(directory: ClusterDirectory, urls: list[str], agents: list[int | None]) -> None:
    _say("Ready:")
    for number, (url, agent) in enumerate(zip(urls, agents, strict=True), start=1):
        _say(f"  node-{number}  {url}  agent pid {agent or '-'}")
    if urls[0] != DEFAULT_URL:
        _say(f"Other terminals find it after: export MUTIRAO_URL={urls[0]}")
    _say(f"Logs: {directory.logs}. Ctrl-C stops everything; the jobs stay.")
