"""The benchmark's own cluster: fresh servers and nodes, whose agents come and go as it asks."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from mutirao.bench.door import Door
from mutirao.embedded import ports
from mutirao.embedded.cluster import SESSIONS_PER_NODE, SESSIONS_SPARE
from mutirao.embedded.directory import ClusterDirectory
from mutirao.embedded.node import Node, prepare
from mutirao.embedded.postgres import Postgres
from mutirao.embedded.process import Process, stop_all, tail
from mutirao.embedded.signals import Signals
from mutirao.embedded.valkey import Valkey
from mutirao.errors import Unavailable
from mutirao.store.bench import Outcomes
from mutirao.store.database import Database
from mutirao.store.migrate import migrate

FIRST_PORT = 28080
READY_TIMEOUT = 60.0
DRAIN = 25.0


@contextmanager
def scratch(parent: Path, signals: Signals) -> Iterator[ClusterDirectory]:
    """A new data directory below `parent`; it and its runtime directory are gone afterwards."""
    root: Path | None = None
    try:
        with signals.shielded():
            root = Path(tempfile.mkdtemp(prefix="mutirao-bench-", dir=parent))
        if os.geteuid() == 0:
            root.chmod(0o755)  # the servers' account must pass through
        directory = ClusterDirectory(root / "data")
        try:
            yield directory
        finally:
            with signals.shielded():
                shutil.rmtree(directory.runtime, ignore_errors=True)
    finally:
        with signals.shielded():
            if root is not None:
                shutil.rmtree(root, ignore_errors=True)


class PrivateCluster:
    """Inside `with`: servers and nodes that nobody else uses; afterwards none of their processes is left."""

    def __init__(self, directory: ClusterDirectory, nodes: int, slots: int, signals: Signals) -> None:
        self._directory = directory
        self._signals = signals
        data, runtime = self._directory.path, self._directory.runtime
        sessions = SESSIONS_PER_NODE * nodes + SESSIONS_SPARE
        self._redis = Valkey(data, runtime)
        self._postgres = Postgres(data, runtime, connections=sessions)
        self._count, self._slots = nodes, slots
        self._nodes: list[Node] = []
        self._agents: dict[str, Process] = {}
        self._webs: dict[str, Process] = {}
        self._database = Database(self.dsn, application_name="mutirao-bench", size=2)
        self.outcomes = Outcomes(self._database)

    @property
    def dsn(self) -> str:
        """Its PostgreSQL."""
        return self._postgres.dsn

    @property
    def redis_url(self) -> str:
        """Its Redis."""
        return self._redis.url

    @property
    def database(self) -> Database:
        """A pool for whoever submits into the store."""
        return self._database

    @property
    def urls(self) -> list[str]:
        """Its web servers."""
        return [node.url for node in self._nodes]

    def __enter__(self) -> Self:
        try:
            self._redis.start()
            self._postgres.start()
            migrate(self.dsn)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._signals.shielded():
            self._close()

    def start_webs(self) -> None:
        """Starts every node's web server."""
        with self._signals.shielded():
            self._nodes = self._prepare()
            self._webs = {f"{node.name}-web": node.web.launch() for node in self._nodes}

    def start_agents(self) -> None:
        """Starts every node's agent."""
        with self._signals.shielded():
            self._agents = {f"{node.name}-agent": node.agent.launch() for node in self._nodes}

    def stop_agents(self) -> None:
        """Drains every agent and returns once all are gone."""
        self._stop(self._agents)
        self._agents = {}

    def wait_ready(self) -> None:
        """Returns once every node answers and beats, and one of them is in office."""
        self.wait(lambda: self.outcomes.ready(self._count), READY_TIMEOUT, "its nodes are not all live")
        for url in self.urls:
            with closing(Door(url)) as door:
                self.wait(door.ready, READY_TIMEOUT, f"{url} is not ready")

    def wait(self, condition: Callable[[], bool], timeout: float, what: str, every: float = 0.1) -> None:
        """Returns once `condition` holds; Unavailable after `timeout` seconds or when a process ended."""
        deadline = time.monotonic() + timeout
        while not condition():
            for name, process in {**self._agents, **self._webs}.items():
                if process.poll() is not None:
                    log = tail(self._directory.logs / f"{name}.log")
                    raise Unavailable(f"{name} of the benchmark's cluster ended:\n{log}")
            if time.monotonic() > deadline:
                raise Unavailable(f"the benchmark's cluster: {what} after {timeout:g} s")
            time.sleep(every)

    def _prepare(self) -> list[Node]:
        shared: dict[str, object] = {
            "postgres": self.dsn, "redis": self.redis_url, "slots": self._slots,
            "handler_modules": ["mutirao.bench.clock"],
        }  # fmt: skip
        free = list(itertools.islice(ports.free_from(FIRST_PORT), 2 * self._count))
        pairs = zip(free[::2], free[1::2], strict=True)
        return [
            prepare(self._directory, number, shared, port=port, agent_port=agent_port, restart=False)
            for number, (port, agent_port) in enumerate(pairs, start=1)
        ]

    def _stop(self, processes: dict[str, Process]) -> None:
        stop_all(list(processes.values()), signal.SIGTERM, DRAIN, hurry=lambda: self._signals.hurry)

    def _close(self) -> None:
        self._database.close()
        for processes in (self._agents, self._webs):
            self._stop(processes)
        self._redis.stop()
        self._postgres.stop()
