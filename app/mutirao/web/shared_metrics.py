"""The metrics of all web workers as one: a file for each worker's place, passed on to whoever holds it next.

Files are named after places, not process ids: however many workers come and go, there are no more files than
places, and no counter ever runs back. Nothing here may import what defines a metric.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, values
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from mutirao.errors import SettingsError
from mutirao.logs import get_logger

log = get_logger(__name__)

# Room that a file has from the start: a disk that fills up later must not kill who writes to its memory.
ROOM = 1 << 18
_MASTER = "master"


class Places:
    """Gunicorn's hooks: a worker that starts takes the lowest place that no living worker has."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._mine = _MASTER

    def share(self) -> None:
        """From here on this process and its forks keep their metrics in the directory, from zero.

        Raises SettingsError if the directory cannot be used, RuntimeError if metrics are defined already.
        """
        if "mutirao.metrics" in sys.modules:
            raise RuntimeError("metrics are defined before it is said where they are kept")
        try:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise SettingsError(
                f"cannot keep metrics in {self._directory}: {error.strerror}",
                hint="set runtime_dir to a directory of this user's",
            ) from None
        # The library looks the directory up there whenever it opens a file.
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(self._directory)
        values.ValueClass = values.MultiProcessValue(lambda: self._mine)  # type: ignore[no-untyped-call]

    def pre_fork(self, server: Any, worker: Any) -> None:
        """In the master: gives the coming worker its place, and the place's files their room."""
        taken = {other.place for other in server.WORKERS.values()}
        worker.place = next(str(number) for number in count() if str(number) not in taken)
        try:
            for file in self._directory.glob(f"*_{_MASTER}.db"):
                _make_room(file.with_name(file.name.replace(_MASTER, worker.place)))
        except OSError as error:
            log.warning("no_room_for_metrics", directory=str(self._directory), error=error.strerror)

    def post_fork(self, _server: Any, worker: Any) -> None:
        """In the worker: what it counts goes to its place's files."""
        self._mine = worker.place

    def child_exit(self, _server: Any, worker: Any) -> None:
        """In the master: what was only true while the worker lived ends with it."""
        mark_process_dead(worker.place, str(self._directory))  # type: ignore[no-untyped-call]


class SharedMetrics(Collector):
    """Every worker's metrics of the registry, added up."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        """The sums; of a process that shares nothing its own values."""
        own: Iterable[Metric] = self._registry.collect()
        if not values.ValueClass._multiprocess:
            yield from own
            return
        # The files also hold the zeros of what only an agent counts.
        names = {metric.name for metric in own}
        files = MultiProcessCollector(None)  # type: ignore[no-untyped-call]
        yield from (metric for metric in files.collect() if metric.name in names)  # type: ignore[no-untyped-call]


def _make_room(file: Path) -> None:
    with file.open("ab") as opened:
        if os.fstat(opened.fileno()).st_size < ROOM:
            os.posix_fallocate(opened.fileno(), 0, ROOM)
