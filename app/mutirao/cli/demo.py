"""The demonstration: a `checksum` job for every file of a tree, submitted, followed and told over REST."""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

BATCH = 200
PAGE = 500
PATIENCE = 60.0
# Not the user's files but what tools keep beside them, changing while one looks.
SKIPPED = frozenset(
    {".git", ".venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
)
ENDED = frozenset({"succeeded", "dead", "cancelled"})


@dataclass(slots=True)
class Followed:
    """The jobs that are followed: their files, and those that have ended."""

    paths: dict[str, Path] = field(default_factory=dict)
    ended: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def oldest(self) -> str:
        """The smallest id; ids are ordered by time of submission."""
        return min(self.paths)


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
        with httpx.Client(timeout=10.0) as client:
            _follow(client, urls, tree, files, console)
    except httpx.HTTPError as error:
        console.print(f"The demonstration ended early: {error}", highlight=False)


def files_of(tree: Path) -> Iterator[Path]:
    """The regular files below `tree`, sorted, without what version control and tools keep there."""
    for folder, folders, names in os.walk(tree):
        folders[:] = sorted(set(folders) - SKIPPED)
        paths = (Path(folder, name) for name in sorted(names))
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _follow(
    client: httpx.Client, urls: Sequence[str], tree: Path, files: Sequence[Path], console: Console
) -> None:
    columns = (TextColumn("hashed"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(files))
        jobs = Followed()
        for url, batch in zip(itertools.cycle(urls), _batches(files), strict=False):
            jobs.paths.update(_submit(client, url, batch))
        for url in itertools.cycle(urls):
            began = time.monotonic()
            for job in _newly_ended(client, url, jobs):
                _tell(progress.console, job, jobs.paths[job["id"]].relative_to(tree))
                progress.advance(task)
            if len(jobs.ended) == len(jobs.paths):
                break
            # Looking must stay a small part of what the cluster does, however long the list is.
            time.sleep(max(0.2, 2 * (time.monotonic() - began)))
    console.print(_summary(jobs))


def _batches(files: Sequence[Path]) -> Iterator[Sequence[Path]]:
    return (files[start : start + BATCH] for start in range(0, len(files), BATCH))


def _submit(client: httpx.Client, url: str, batch: Sequence[Path]) -> dict[str, Path]:
    """Submits one batch, waiting for the first agent to publish what `checksum` takes."""
    jobs = [{"handler": "checksum", "payload": {"path": str(path)}, "max_retries": 1} for path in batch]
    deadline = time.monotonic() + PATIENCE
    while True:
        response = client.post(f"{url}/api/v1/jobs/batch", json={"jobs": jobs})
        if response.is_success:
            return dict(zip((job["id"] for job in response.json()["jobs"]), batch, strict=True))
        if time.monotonic() > deadline:
            raise httpx.HTTPError(f"{url} answered {response.status_code}: {response.text[:300]}")
        time.sleep(0.2)


def _newly_ended(client: httpx.Client, url: str, jobs: Followed) -> Iterable[dict[str, Any]]:
    """Our jobs that have ended since the last look, from the newest page back to our oldest job."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        query = {"handler": "checksum", "limit": str(PAGE), **({"cursor": cursor} if cursor else {})}
        response = client.get(f"{url}/api/v1/jobs", params=query)
        if not response.is_success:
            return found
        page = response.json()
        for job in page["jobs"]:
            if job["id"] in jobs.paths and job["id"] not in jobs.ended and job["state"] in ENDED:
                jobs.ended[job["id"]] = job
                found.append(job)
        cursor = page["next_cursor"]
        if cursor is None or page["jobs"][-1]["id"] < jobs.oldest:
            return found


def _tell(console: Console, job: dict[str, Any], path: Path) -> None:
    style = "" if job["state"] == "succeeded" else "red"
    where = job["node_name"] or "nowhere"
    console.print(f"{where:8} {job['state']:9} {path}", style=style, markup=False, highlight=False)


def _summary(jobs: Followed) -> Table:
    counts = Counter((job["node_name"] or "nowhere", job["state"]) for job in jobs.ended.values())
    table = Table("node", "succeeded", "dead", title="Where the jobs ran")
    for name in sorted({name for name, _ in counts}):
        table.add_row(name, str(counts[name, "succeeded"]), str(counts[name, "dead"]))
    return table
