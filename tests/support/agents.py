"""Real agents: `mutirao agent` as a process of its own, with all that it says and leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

from mutirao.agent.proof import find_marked
from tests.support.checker import check
from tests.support.door import free_port, toml
from tests.support.processes import children, send
from tests.support.running import HANDLERS
from tests.support.stage import Stage
from tests.support.waiting import until

START = 20.0  # on a busy machine; an agent needs a second


class AgentProcess:
    """One node's agent, to be started, ended and started again on the same state directory."""

    def __init__(self, directory: Path, name: str, dsn: str, redis_url: str, **settings: object) -> None:
        self.name = name
        self.state, self.runtime = directory / name / "state", directory / name / "runtime"
        for path in (self.state, self.runtime):
            path.mkdir(parents=True, exist_ok=True)
        self._log = directory / name / "agent.log"
        self._config = directory / name / "mutirao.toml"
        self.port = free_port()
        self.settings: dict[str, object] = {
            "node_name": name,
            "postgres": dsn,
            "redis": redis_url,
            "state_dir": str(self.state),
            "runtime_dir": str(self.runtime),
            "agent_port": self.port,
            "slots": 2,
            "handler_modules": [HANDLERS],
            "log_json": True,
            "log_level": "debug",
            **settings,
        }
        self._since = 0
        self._process: subprocess.Popen[bytes] | None = None

    # Life

    def start(self, **changed: object) -> AgentProcess:
        """Starts the process; `text` and `events` speak of this start only."""
        assert self._process is None or self._process.poll() is not None
        self._config.write_text(toml({**self.settings, **changed}))
        self._config.chmod(0o600)
        self._since = self._log.stat().st_size if self._log.exists() else 0
        argv = [sys.executable, "-m", "mutirao", "agent", "--config", str(self._config)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=log, env={**os.environ})
        return self

    def serving(self) -> AgentProcess:
        """Returns once it is registered and serves."""
        self.event("serving", START)
        return self

    def ended(self, timeout: float = START) -> int:
        """Waits for its exit status."""
        assert self._process is not None
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs after {timeout:g} s\n{self.text()}") from None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def send(self, signum: signal.Signals) -> None:
        send(self.pid, signum)

    def kill(self) -> None:
        """SIGKILL, at once."""
        if self.running:
            self.send(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    # What there is of it

    @property
    def id(self) -> UUID:
        """The node's identity."""
        return UUID((self.state / "node-id").read_text().strip())

    def descendants(self) -> list[int]:
        """Its guard, its runners and all of theirs."""
        return children(self.pid)

    def kill_guard(self) -> None:
        """SIGKILL for its guard alone."""
        (guard,) = [child for child in psutil.Process(self.pid).children() if _is_guard(child)]
        guard.kill()

    def text(self) -> str:
        """What it has written since it was started."""
        with self._log.open("rb") as log:
            log.seek(self._since)
            return log.read().decode()

    def events(self, name: str) -> list[dict[str, Any]]:
        """The events of that name since it was started."""
        lines = [json.loads(line) for line in self.text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == name]

    def event(self, name: str, timeout: float = 10.0) -> dict[str, Any]:
        """Waits for the first event of that name."""

        def found() -> dict[str, Any] | None:
            events = self.events(name)
            assert events or self.running, f"{self.name} has ended\n{self.text()}"
            return events[0] if events else None

        return until(found, timeout, f"{self.name} says {name}")

    def metric(self, name: str) -> float:
        """The sum of one metric over its labels, as it is served now."""
        text = httpx.get(f"http://127.0.0.1:{self.port}/metrics", trust_env=False).text
        samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
        return sum(sample.value for sample in samples if sample.name == name)


def _is_guard(process: psutil.Process) -> bool:
    return any("mutirao.agent.guard" in argument for argument in process.cmdline())


class Site:
    """A database and agents on it; `stage` submits to it and looks into it."""

    def __init__(self, directory: Path, dsn: str, redis_url: str) -> None:
        self.directory, self.dsn, self.redis_url = directory, dsn, redis_url
        self.jobs: list[UUID] = []
        self._agents: list[AgentProcess] = []
        self.stage = Stage(dsn)

    def agent(self, name: str, **settings: object) -> AgentProcess:
        """A new node's agent, not started yet; it ends with the site."""
        made = AgentProcess(self.directory, name, self.dsn, self.redis_url)
        made.settings.update(settings)
        self._agents.append(made)
        return made

    def submit(self, handler: str, payload: object, **fields: Any) -> UUID:
        """One job."""
        known = {"contract": self.stage.contract(handler)}
        (job,) = self.stage.submit(1, handler=handler, payload=json.dumps(payload), **{**known, **fields})
        self.jobs.append(job)
        return job

    def record(self, seconds: float = 0.0, **fields: Any) -> UUID:
        """A job that leaves a trace when it has slept for so long."""
        return self.submit("record", {"file": str(self.directory / "record"), "seconds": seconds}, **fields)

    def traces(self, job: UUID) -> list[dict[str, Any]]:
        """Every run of a job that came to its end."""
        file = self.directory / "record"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [line for line in lines if line["job"] == str(job)]

    def becomes(self, job: UUID, state: str, timeout: float = 15.0) -> None:
        """Waits until the job is in that state."""
        until(lambda: self.stage.state(job) == state, timeout, f"job {job} {state}", every=0.02)

    def node(self, agent: AgentProcess) -> Any:
        """The agent's row."""
        (row,) = self.stage.rows("SELECT incarnation, status FROM nodes WHERE id = %s", agent.id)
        return row

    def leader(self) -> str:
        """The name of the node that took the newest term; empty when nobody has yet."""
        query = "SELECT n.name FROM term t JOIN nodes n ON n.id::text = split_part(t.holder, ':', 1)"
        rows = self.stage.rows(query)
        return str(rows[0].name) if rows else ""

    def close(self) -> None:
        """Kills every agent; returns once all that they ran is dead."""
        self.stage.database.close()
        for agent in self._agents:
            agent.kill()
        for directory in self.directory.glob("*/state/node-id"):
            node = UUID(directory.read_text().strip())
            until(lambda node=node: not find_marked(node), 10.0, "all that an agent ran is dead")  # type: ignore[misc]


@contextmanager
def site(directory: Path, dsn: str, redis_url: str) -> Iterator[Site]:
    """A site that has kept every invariant, and whose agents and their processes are all dead afterwards."""
    made = Site(directory, dsn, redis_url)
    try:
        yield made
        assert check(dsn, made.jobs) == []
    finally:
        made.close()
