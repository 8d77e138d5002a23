"""Jobs followed to their end by the command line: a line as each ends, and what became of all of them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

import click

from mutirao.cli.progress import progress
from mutirao.client.rest import Rest
from mutirao.client.watching import ended


def follow(nodes: Rest, ids: Sequence[str], timeout: float | None, *, as_json: bool) -> None:
    """Prints each job as it ends and exits with 1 unless all succeeded; WaitTimeout."""
    states: Counter[str] = Counter()
    with progress("ended", len(set(ids))) as advance:
        for job in ended(nodes, ids, timeout):
            states[job["state"]] += 1
            click.echo(job.text if as_json else f"{job['id']} {job['state']}")
            advance(1)
    if len(ids) > 1:
        click.echo(", ".join(f"{count} {state}" for state, count in states.most_common()), err=True)
    if states.keys() - {"succeeded"}:
        sys.exit(1)
