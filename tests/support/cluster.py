"""Real clusters for the acceptance tests: `mutirao up` in its own process, and an end to all of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psycopg

from mutirao.embedded.directory import ClusterDirectory
from tests.support.processes import MARKER, alive, end_all, owner_of, send
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
PARENT = Path("/var/tmp")
PREFIX = "mutirao-acceptance-"
START_TIMEOUT = 60.0
STOP_TIMEOUT = 45.0
AGENT_PORTS_ABOVE = 100
# What an earlier start on the same data left in the tables is older than the server's own start.
MEMBERS = """SELECT count(*), count(*) FILTER (WHERE starts_with(holder, id || ':' || incarnation || ':'))
FROM nodes, term WHERE status = 'live' AND registered_at > pg_postmaster_start_time()"""


@dataclass(frozen=True, slots=True)
class Node:
    """One node as the supervisor describes it; a pid is 0 while that process does not run."""

    name: str
    agent: int
    web: int
    url: str


def fresh_directory() -> Path:
    """A new directory that PostgreSQL's account may pass through; its name ends in the test run's pid."""
    path = Path(tempfile.mkdtemp(prefix=PREFIX, suffix=f"-{os.getpid()}", dir=PARENT))
    path.chmod(0o755)
    return path


def sweep_leftovers() -> None:
    """Ends and removes what sessions that were themselves killed have left behind."""
    for path in PARENT.glob(f"{PREFIX}*"):
        if path.owner() == Path(f"/proc/{os.getpid()}").owner() and not alive(owner_of(path)):
            end_all(str(path))
            _remove(path)


def _remove(run: Path) -> None:
    """Removes a run's directory and, in memory, what its sockets lay in."""
    if (run / "data" / "cluster-id").exists():
        shutil.rmtree(ClusterDirectory(run / "data").runtime, ignore_errors=True)
    shutil.rmtree(run, ignore_errors=True)


def free_ports(count: int) -> int:
    """The first of `count` consecutive ports that nobody listens on, nor on those of their agents."""
    for first in range(18080 + os.getpid() % 1000 * 10, 60000, count + 3):
        if all(
            _free(port) for base in (first, first + AGENT_PORTS_ABOVE) for port in range(base, base + count)
        ):
            return first
    raise AssertionError("no free ports")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@dataclass
class Cluster:
    """`mutirao up` on a data directory of its own; `start` may follow `stop` or `kill` on the same data."""

    nodes: int = 3
    options: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    run: Path = field(default_factory=fresh_directory)

    def __post_init__(self) -> None:
        self.data = self.run / "data"
        self.failpoints = self.run / "failpoints"
        self.traces = self.run / "traces"
        for path in (self.failpoints, self.traces):
            path.mkdir()
        self.port = free_ports(self.nodes)
        self.process: subprocess.Popen[bytes] | None = None

    # Life

    def start(self, timeout: float = START_TIMEOUT) -> Cluster:
        """Starts it and returns once a coordinator is in office and every node answers and beats."""
        self.process = self.spawn()
        until(self._ready, timeout, f"cluster in {self.data} ready\n{self.log_tail()}", every=0.1)
        return self

    def spawn(self) -> subprocess.Popen[bytes]:
        """Only starts the supervisor; its output goes to `up.log`."""
        arguments = ["up", "--data", str(self.data), "--nodes", str(self.nodes), "--port", str(self.port)]
        with (self.run / "up.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "mutirao", *arguments, *self.options],
                cwd="/",
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _environment(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("MUTIRAO_")},
            "PYTHONPATH": str(ROOT),
            MARKER: str(self.run),
            "MUTIRAO_HANDLER_MODULES": "tests.support.probes",
            "MUTIRAO_FAILPOINTS": str(self.failpoints),
            "MUTIRAO_SLOTS": "2",
            **self.environment,
        }

    def _ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"up exited {self.process.returncode}\n{self.log_tail()}"
        try:
            return self._answers() and self.rows(MEMBERS)[0] == (self.nodes, 1)
        except (OSError, KeyError, ValueError, httpx.HTTPError, psycopg.Error):
            return False

    def _answers(self) -> bool:
        return self.up()["pid"] == self.process.pid and all(  # type: ignore[union-attr]
            httpx.get(f"{node.url}/readyz").status_code == httpx.codes.OK for node in self.members()
        )

    def stop(self, timeout: float = STOP_TIMEOUT) -> int:
        """SIGTERM: the drain; its exit status. An error if it takes longer than `timeout`."""
        assert self.process is not None
        send(self.process.pid, signal.SIGTERM)
        return self.process.wait(timeout)

    def kill(self) -> None:
        """SIGKILLs everything at once, as a power cut would."""
        end_all(str(self.run))
        if self.process is not None:
            self.process.wait(10)

    def close(self) -> None:
        """Ends everything that was started for it, whatever state it is in."""
        if self.process is not None and self.process.poll() is None:
            self._end_postgres()
            self.kill()
        end_all(str(self.run))
        _remove(self.run)

    def _end_postgres(self) -> None:
        """Lets the server free its shared memory, which a SIGKILL would leave behind for good."""
        assert self.process is not None
        # Stopped, the supervisor cannot start it again.
        send(self.process.pid, signal.SIGSTOP)
        with suppress(FileNotFoundError, AssertionError):
            postmaster = self.up()["postgres"]["pid"] or 0
            if alive(postmaster):
                send(postmaster, signal.SIGQUIT)
                until(lambda: not alive(postmaster), 5, "PostgreSQL ended")

    # What it says of itself

    def up(self) -> dict[str, Any]:
        """What the supervisor wrote last."""
        document: dict[str, Any] = json.loads((self.data / "up.json").read_text())
        return document

    def members(self) -> list[Node]:
        """The nodes, with the pids of now."""
        return [_node(entry) for entry in self.up()["nodes"]]

    def member(self, name: str) -> Node:
        """One node by name."""
        return next(node for node in self.members() if node.name == name)

    @property
    def dsn(self) -> str:
        """How to reach its PostgreSQL."""
        return str(self._settings()["postgres"])

    @property
    def redis_url(self) -> str:
        """How to reach its Redis."""
        return str(self._settings()["redis"])

    def _settings(self) -> dict[str, Any]:
        return tomllib.loads((self.data / "nodes" / "1" / "mutirao.toml").read_text())

    def log_tail(self, lines: int = 40) -> str:
        """The end of every log, for a failure's message."""
        logs = [self.run / "up.log", *sorted((self.data / "logs").glob("*.log"))]
        return "\n".join(f"== {log.name}\n{_tail(log, lines)}" for log in logs if log.exists())

    # What its database says

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """One query in its database, on a connection of its own."""
        with psycopg.connect(self.dsn, application_name="acceptance", connect_timeout=5) as connection:
            connection.execute("SET search_path = mutirao")
            return connection.execute(query.encode(), parameters).fetchall()

    def term(self) -> int:
        """The newest term."""
        return int(self.rows("SELECT term FROM term")[0][0])

    def holder(self) -> Node:
        """The node that holds the newest term."""
        query = "SELECT n.name FROM term t JOIN nodes n ON n.id::text = split_part(t.holder, ':', 1)"
        return self.member(self.rows(query)[0][0])

    def incarnations(self, *statuses: str) -> dict[str, int]:
        """Each node's incarnation by its name; only those in one of `statuses`, if given."""
        found = self.rows("SELECT name, incarnation, status FROM nodes")
        return {name: number for name, number, status in found if not statuses or status in statuses}

    def live_jobs(self) -> int:
        """How many jobs have not ended."""
        return int(self.rows("SELECT count(*) FROM jobs")[0][0])

    def state(self, job: UUID) -> str:
        """One job's present state."""
        query = "SELECT state::text FROM {} WHERE id = %s"
        live = self.rows(query.format("jobs"), job)
        return str((live or self.rows(query.format("finished_jobs"), job))[0][0])

    def running_on(self, job: UUID) -> str | None:
        """The node that runs a job, by name; None while nobody does."""
        query = (
            "SELECT n.name FROM jobs j JOIN nodes n ON n.id = j.node WHERE j.id = %s AND j.state = 'running'"
        )
        found = self.rows(query, job)
        return found[0][0] if found else None

    def drained(self, timeout: float) -> None:
        """Waits until every job has ended."""
        until(lambda: self.live_jobs() == 0, timeout, "every job ended", every=0.25)


def _node(entry: Mapping[str, Any]) -> Node:
    return Node(entry["name"], entry["agent"] or 0, entry["web"] or 0, entry["url"])


def _tail(path: Path, lines: int) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
