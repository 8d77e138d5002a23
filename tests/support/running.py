"""Runners under test: made, driven until something ends, and closed with nothing left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from mutirao.agent.runners import Finished, Runners, Task
from mutirao.loop import boottime
from mutirao.registry import HandlerConfig, load_registry
from tests.support.waiting import until

HANDLERS = str(Path(__file__).parents[1] / "handlers_for_tests.py")
LEASE = 60.0


@contextmanager
def runners(
    directory: Path, count: int = 2, lease: float | None = LEASE, config: HandlerConfig | None = None
) -> Iterator[Runners]:
    """Started runners under a lease (None: under none yet), with the handlers for tests or others."""
    config = config or HandlerConfig(modules=(HANDLERS,))
    graces = {one.handler: one.defaults["cancel_grace"] for one in load_registry(config).contracts()}
    made = Runners(uuid4(), count, config, directory, graces)
    made.start()
    if lease is not None:
        made.extend(boottime() + lease)
    try:
        yield made
    finally:
        made.close()


def task(handler: str, payload: object = None, *, attempt: int = 1, timeout: float = 30.0) -> Task:
    """A task with a fresh job id."""
    raw = json.dumps({} if payload is None else payload).encode()
    return Task(uuid4(), attempt, handler, raw, timeout)


def submit(runners: Runners, *tasks: Task) -> None:
    """Hands the tasks over; there must be room."""
    assert runners.submit(tasks) == len(tasks)


def ends(runners: Runners, count: int, timeout: float = 20.0) -> dict[UUID, Finished]:
    """Polls until so many tasks have ended."""
    found: dict[UUID, Finished] = {}

    def enough() -> bool:
        for finished in runners.poll(0.2):
            assert finished.job_id not in found, "one task ended twice"
            found[finished.job_id] = finished
        return len(found) >= count

    until(enough, timeout, f"{count} ends", every=0.0)
    assert len(found) == count
    return found


def end_of(runners: Runners, wanted: Task, timeout: float = 20.0) -> Finished:
    """Submits one task and polls until it has ended."""
    submit(runners, wanted)
    return ends(runners, 1, timeout)[wanted.job_id]


def error_of(finished: Finished) -> dict[str, Any]:
    """The error as an object."""
    assert finished.error is not None
    error: dict[str, Any] = json.loads(finished.error)
    return error


def pids_in(path: Path, timeout: float = 10.0) -> list[int]:
    """Waits for the file a handler writes its processes to."""
    until(path.exists, timeout, f"{path} written")
    return [int(line) for line in path.read_text().split()]


def started(runners: Runners, wanted: Task) -> float:
    """Polls until the task has started; when."""
    key = (wanted.job_id, wanted.attempt)

    def start() -> float:
        assert not runners.poll(0.01)
        return runners.running()[key]

    return until(start, 10.0, "the task started", every=0.0)
