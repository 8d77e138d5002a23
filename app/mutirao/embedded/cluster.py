"""A whole cluster on one machine: two servers, N agents and N web servers, started and ended in order."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from mutirao.coordination.connection import connect, wrapped
from mutirao.embedded import orphans, ports
from mutirao.embedded.children import Child
from mutirao.embedded.directory import ClusterDirectory
from mutirao.embedded.node import Node, prepare
from mutirao.embedded.postgres import Postgres
from mutirao.embedded.process import tail
from mutirao.embedded.signals import Signals, Stop
from mutirao.embedded.supervisor import Supervisor
from mutirao.embedded.valkey import Valkey
from mutirao.errors import CoordinationUnavailable, Unavailable
from mutirao.settings import load_settings
from mutirao.store.database import Database
from mutirao.store.doctor import Examination
from mutirao.store.migrate import migrate

READY_TIMEOUT = 60.0
AGENT_PORTS_ABOVE = 100
# Per node: an agent's sessions and a web server's; the rest is for people and migrations.
SESSIONS_PER_NODE, SESSIONS_SPARE = 16, 20
# A draining agent's own bound, and what it may need beyond it to say goodbye.
DRAIN_MARGIN = 5.0


@dataclass(frozen=True, slots=True)
class Options:
    """What the user chose for the cluster."""

    nodes: int = 3
    port: int = 8080
    postgres: str | None = None
    redis: str | None = None
    restart: bool = True
    # Settings that all nodes share, as a settings file would have them.
    settings: Mapping[str, object] = field(default_factory=dict)


class Cluster:
    """Runs over one data directory, which the caller holds, until somebody asks it to stop."""

    def __init__(
        self, directory: ClusterDirectory, options: Options, signals: Signals, say: Callable[[str], None]
    ) -> None:
        self._directory = directory
        self._options = options
        self._signals = signals
        self._say = say
        self._supervisor = Supervisor(signals, say=say, changed=self._describe)
        self._postgres: Postgres | None = None
        self._redis: Valkey | None = None
        self._servers: dict[str, Child] = {}
        self._nodes: list[Node] = []
        self._drain = 0.0

    @property
    def urls(self) -> list[str]:
        """The address of each node's web server."""
        return [node.url for node in self._nodes]

    @property
    def agents(self) -> list[int | None]:
        """The process of each node's agent; None while it is down."""
        return [node.agent.pid for node in self._nodes]

    def run(self, on_ready: Callable[[list[str]], None]) -> None:
        """Starts everything and keeps it running until a signal; leaves nothing running in any case."""
        try:
            with self._signals.interrupting():
                self._end_leftovers()
                self._start_servers()
                self._start_nodes()
                self._wait_ready()
            on_ready(self.urls)
            with self._signals.interrupting():
                while True:
                    self._supervisor.watch()
        except Stop:
            self._say("Stopping: agents finish what they run. Ctrl-C again cuts it short.")
        finally:
            self._stop()

    def _end_leftovers(self) -> None:
        left = orphans.end_marked(self._directory.mark)
        if left:
            self._say(f"Ended {len(left)} processes of an aborted run.")
        ports.require_free(range(self._options.port, self._options.port + self._options.nodes))

    def _start_servers(self) -> None:
        began = time.monotonic()
        data, runtime = self._directory.path, self._directory.runtime
        if self._options.redis is None:
            environment = {orphans.MARKER: self._directory.mark}
            self._redis = Valkey(data, runtime, environment=environment)
            self._redis.start()
            self._adopt("redis", self._redis)
        if self._options.postgres is None:
            connections = SESSIONS_PER_NODE * self._options.nodes + SESSIONS_SPARE
            self._postgres = Postgres(data, runtime, connections=connections)
            self._postgres.start()
            self._adopt("postgres", self._postgres)
        migrate(self._dsn)
        if self._options.redis is not None:
            self._mention_redis()
        self._say(f"Servers are up and the schema is current ({time.monotonic() - began:.1f} s).")

    def _mention_redis(self) -> None:
        """Somebody's Redis may be away: that is no reason not to start, only worth a word."""
        try:
            with wrapped():
                connect(self._redis_url, timeout=2.0).ping()
        except CoordinationUnavailable as error:
            self._say(
                f"{error.message.rstrip('.')}: all goes on by PostgreSQL alone, slower, until it is back."
            )

    def _adopt(self, name: str, server: Postgres | Valkey) -> None:
        child = Child(name, server.launch, process=server.process, log=self._directory.logs / f"{name}.log")
        self._servers[name] = child
        self._supervisor.adopt(child)

    def _start_nodes(self) -> None:
        options = self._options
        shared = {**self._naming(), **options.settings, "postgres": self._dsn, "redis": self._redis_url}
        agent_ports = ports.free_from(options.port + AGENT_PORTS_ABOVE)
        self._nodes = [
            prepare(
                self._directory, number, shared, port=options.port + number - 1, agent_port=agent_port,
                restart=options.restart,
            )
            for number, agent_port in zip(range(1, options.nodes + 1), agent_ports, strict=False)
        ]  # fmt: skip
        self._drain = load_settings(self._directory.node(1) / "mutirao.toml").drain_timeout
        self._supervisor.start([node.agent for node in self._nodes])
        self._supervisor.start([node.web for node in self._nodes])

    def _naming(self) -> dict[str, object]:
        """On somebody's Redis the keys carry the database's own id: who shares one shares the other."""
        if self._options.redis is None:
            return {}
        with closing(Database(self._dsn, application_name="mutirao up")) as database:
            return {"redis_prefix": f"mutirao-{Examination(database).cluster_id().hex[:12]}"}

    def _wait_ready(self) -> None:
        """Returns once every web server takes connections; children that fail meanwhile are started again."""
        deadline = time.monotonic() + READY_TIMEOUT
        for node in self._nodes:
            while not (node.web.pid and ports.answers(node.port)):
                if time.monotonic() > deadline:
                    log = self._directory.logs / f"{node.name}-web.log"
                    raise Unavailable(f"{node.url} does not answer; {log} ends with:\n{tail(log)}")
                self._supervisor.watch(0.1)

    def _stop(self) -> None:
        self._supervisor.stop(
            [node.agent for node in self._nodes], signal.SIGTERM, self._drain + DRAIN_MARGIN
        )
        self._supervisor.stop([node.web for node in self._nodes], signal.SIGTERM, 5.0)
        self._supervisor.release(list(self._servers.values()))
        for server in (self._redis, self._postgres):
            if server is not None:
                server.stop()
        self._directory.forget()

    def _describe(self) -> None:
        """Writes up.json: what runs now, and how to reach it."""
        document = {
            "pid": os.getpid(),
            "data": str(self._directory.path),
            "port": self._options.port,
            "urls": self.urls,
            "postgres": {"pid": self._server_pid("postgres"), "dsn": self._dsn},
            "redis": {"pid": self._server_pid("redis"), "url": self._redis_url},
            "nodes": [node.describe() for node in self._nodes],
        }
        try:
            self._directory.describe(document)
        except OSError as error:
            # Only others read it: the cluster goes on, and the next change writes it anew.
            self._say(f"up.json is out of date, it cannot be written: {error.strerror}")

    def _server_pid(self, name: str) -> int | None:
        child = self._servers.get(name)
        return child.pid if child is not None else None

    @property
    def _dsn(self) -> str:
        return self._options.postgres or (self._postgres.dsn if self._postgres is not None else "")

    @property
    def _redis_url(self) -> str:
        return self._options.redis or (self._redis.url if self._redis is not None else "")
