"""Reads what the probe handler wrote, and decides I2 from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Trace:
    """One attempt as its handler saw it (CLOCK_BOOTTIME); `end` is None for one that was killed."""

    attempt: int
    start: float
    end: float | None
    pids: tuple[int, ...]
    survivors: tuple[int, ...]


def traces(directory: Path, job: UUID) -> list[Trace]:
    """The attempts of one job in the order they started; empty before the first."""
    try:
        lines = (directory / f"{job}.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return []
    events = [json.loads(line) for line in lines]
    ends = {event["attempt"]: event["at"] for event in events if event["event"] == "end"}
    return [
        Trace(e["attempt"], e["at"], ends.get(e["attempt"]), tuple(e["pids"]), tuple(e["survivors"]))
        for e in events
        if e["event"] == "start"
    ]


def overlaps(directory: Path) -> list[str]:
    """Every two executions of one job that were going on at once (I2); empty is right."""
    return [text for path in sorted(directory.glob("*.jsonl")) for text in _overlaps(path)]


def _overlaps(path: Path) -> Iterator[str]:
    found = traces(path.parent, UUID(path.stem))
    for trace in found:
        if trace.survivors:
            yield f"{path.stem}: attempt {trace.attempt} found processes of earlier ones: {trace.survivors}"
    for before, after in pairwise(sorted(found, key=lambda trace: trace.start)):
        # Without an end it was killed, and `survivors` says whether that was in time.
        if before.end is not None and before.end > after.start:
            late = before.end - after.start
            yield f"{path.stem}: attempt {before.attempt} ended {late:.3f} s after {after.attempt} began"
        if after.attempt <= before.attempt:
            yield f"{path.stem}: attempt {after.attempt} began after attempt {before.attempt}"
