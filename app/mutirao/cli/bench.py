"""`mutirao bench`: what this machine does, beside what it could do at all."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

import mutirao
from mutirao.cli.rest import table

if TYPE_CHECKING:
    from mutirao.bench.figures import Run
    from mutirao.bench.run import Options

INTERRUPTED = 130

EPILOG = """\b
Examples:
  mutirao bench
  mutirao bench --nodes 2 -n 20000 --repeat 3 --json > figures.json
  mutirao bench --nodes 1 -n 300 --directory /mnt/data

Exit codes: 0 measured and every job succeeded exactly once, 1 some did not, 2 invalid, 3 the cluster did not
come up or stood still, 130 interrupted.
"""


@click.command(epilog=EPILOG)
@click.option("--nodes", type=click.IntRange(1, 16), default=2, show_default=True)
@click.option("-n", "--jobs", type=click.IntRange(10, 1_000_000), default=20_000, show_default=True,
              help="No-op jobs of the backlog.")  # fmt: skip
@click.option("--idle", type=click.IntRange(1, 10_000), default=100, show_default=True,
              help="Single jobs for the idle latency.")  # fmt: skip
@click.option("--slots", type=click.IntRange(1, 64),
              help="Runner processes of each node.  [default: the processors' share]")  # fmt: skip
@click.option("--repeat", type=click.IntRange(1, 99), default=1, show_default=True,
              help="Runs, each on a new cluster; the medians are shown.")  # fmt: skip
@click.option("--directory", type=click.Path(path_type=Path, file_okay=False, exists=True),
              default=Path("/var/tmp"), show_default=True,  # noqa: S108 - a folder of our own is made in it
              help="Where the cluster's data lies meanwhile: it is this disk that is measured.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    nodes: int, jobs: int, idle: int, slots: int | None, repeat: int, directory: Path, as_json: bool
) -> None:
    """Measure throughput, idle latency and submission on a private cluster that is removed afterwards.

    Each figure stands beside the raw floor of the same run: what PostgreSQL alone does on this machine.
    """
    from mutirao.bench.run import Options  # noqa: PLC0415 - other verbs must start fast
    from mutirao.embedded.signals import Stop  # noqa: PLC0415

    options = Options(nodes, slots or max(1, (os.cpu_count() or 1) // nodes), jobs, idle, directory.resolve())
    load = os.getloadavg()[0]
    try:
        runs = _measure(options, repeat)
    except Stop:
        click.echo("Interrupted; the cluster and its data are gone.", err=True)
        sys.exit(INTERRUPTED)
    _show_json(options, runs, load) if as_json else _show(options, runs, load)


def _measure(options: Options, repeat: int) -> list[Run]:
    from mutirao.bench.run import measure  # noqa: PLC0415
    from mutirao.embedded.signals import Signals  # noqa: PLC0415

    signals = Signals()
    runs = []
    with signals.interrupting():
        for number in range(1, repeat + 1):
            prefix = f"run {number} of {repeat}: " if repeat > 1 else ""
            runs.append(measure(options, signals, lambda text, p=prefix: click.echo(p + text, err=True)))  # type: ignore[misc]
    return runs


def _show_json(options: Options, runs: list[Run], load: float) -> None:
    from mutirao.bench.figures import summary  # noqa: PLC0415

    document = {
        "version": mutirao.__version__,
        "nodes": options.nodes,
        "slots": options.slots,
        "jobs": options.jobs,
        "idle": options.idle,
        "repeat": len(runs),
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "load_before": load},
        **summary(runs),
    }
    click.echo(json.dumps(document, indent=2))


def _show(options: Options, runs: list[Run], load: float) -> None:
    from mutirao.bench.figures import rows  # noqa: PLC0415

    table(("figure", "median", "floor", "of", "ratio"), rows(runs), "")
    click.echo(
        f"\njobs {options.jobs}, nodes {options.nodes}, runners a node {options.slots}, runs {len(runs)}, "
        f"processors {os.cpu_count()}, load before {load:.2f}. Every job succeeded exactly once.\n"
        "A ratio of 1 is the floor's own speed, in the same run."
    )
