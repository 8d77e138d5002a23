"""The demonstration: a `checksum` job for every file of a tree, submitted, followed and told over REST."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from mutirao.client import Client, JobSummary
from mutirao.errors import MutiraoError, Unavailable

HANDLER = "checksum"
BATCH = 200
PATIENCE = 60.0
# Not the user's files but what tools keep beside them, changing while one looks.
SKIPPED = frozenset(
    {".git", ".venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
)


def run(urls: Sequence[str], tree: Path) -> None:
    """Hashes the tree's files on the cluster and shows where each one ran; says so if it cannot."""
    console = Console()
    files = list(files_of(tree))
    if not files:
        console.print(f"{tree} has no files to hash.")
        return
    console.print(
        f"Demonstration: {len(files)} files of {tree}, hashed by {len(urls)} nodes.", highlight=False
    )
    try:
        with Client(urls) as client:
            _follow(client, tree, files, console)
    except MutiraoError as error:
        console.print(f"The demonstration ended early: {error}", highlight=False)


def files_of(tree: Path) -> Iterator[Path]:
    """The regular files below `tree`, sorted, without what version control and tools keep there."""
    for folder, folders, names in os.walk(tree):
        folders[:] = sorted(set(folders) - SKIPPED)
        paths = (Path(folder, name) for name in sorted(names))
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _follow(client: Client, tree: Path, files: Sequence[Path], console: Console) -> None:
    columns = (TextColumn("hashed"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(files))
        _await_handler(client)
        jobs = client.submit_many(
            ({"handler": HANDLER, "payload": {"path": str(path)}, "max_retries": 1} for path in files),
            chunk=BATCH,
        )
        paths = {job.id: path for job, path in zip(jobs, files, strict=True)}
        ended = []
        for job in client.stream(jobs):
            ended.append(job)
            _tell(progress.console, job, paths[job.id].relative_to(tree))
            progress.advance(task)
    console.print(_summary(ended))


def _await_handler(client: Client) -> None:
    """Returns once an agent has published what is asked for."""
    until = time.monotonic() + PATIENCE
    while all(one.handler != HANDLER for one in client.handlers()):
        if time.monotonic() > until:
            raise Unavailable(f"no node serves {HANDLER}")
        time.sleep(0.2)


def _tell(console: Console, job: JobSummary, path: Path) -> None:
    style = "" if job.state == "succeeded" else "red"
    where = job.node_name or "nowhere"
    console.print(f"{where:8} {job.state:9} {path}", style=style, markup=False, highlight=False)


def _summary(ended: Sequence[JobSummary]) -> Table:
    counts = Counter((job.node_name or "nowhere", str(job.state)) for job in ended)
    table = Table("node", "succeeded", "dead", title="Where the jobs ran")
    for name in sorted({name for name, _ in counts}):
        table.add_row(name, str(counts[name, "succeeded"]), str(counts[name, "dead"]))
    return table
