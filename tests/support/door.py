"""A real web server over real stores, and a hand-driven node that ends its jobs as a test decides."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx

from mutirao.domain.job import Outcome
from mutirao.domain.placement import Assignment
from mutirao.registry import HandlerConfig, load_registry
from mutirao.store.assignment import AssignmentStore
from mutirao.store.database import Database
from mutirao.store.execution import Ack, ExecutionStore
from mutirao.store.nodes import Identity, NodeStore, PublishedContract
from mutirao.store.term import TermStore
from tests.support.waiting import until

HANDLERS = Path(__file__).parent / "door_handlers.py"


class HandDrivenNode:
    """Registered and in office like an agent, but each step is a call."""

    def __init__(self, dsn: str, name: str = "node-1") -> None:
        self.id = uuid4()
        self.database = Database(dsn, application_name="hand-driven")
        registry = load_registry(HandlerConfig(modules=(str(HANDLERS),)))
        contracts = [
            PublishedContract(
                one.handler,
                one.fingerprint,
                one.description,
                json.dumps(one.payload_schema),
                json.dumps(one.result_schema),
                json.dumps(one.defaults),
            )
            for one in registry.contracts()
        ]
        identity = Identity(self.id, name, "http://127.0.0.1:1", slots=2, version="0")
        nodes = NodeStore(self.database)
        self.incarnation, counter, _ = nodes.register(identity, contracts, None)
        nodes.beat(self.id, self.incarnation, counter + 1, True, 1000)
        term = TermStore(self.database)
        office = term.take(term.read(), f"{self.id}:{self.incarnation}:nonce", self.id)
        assert office is not None
        self._assignment = AssignmentStore(self.database, office)
        self._execution = ExecutionStore(self.database, self.id, self.incarnation)

    def keep_house(self) -> None:
        """Counts the live jobs, as a coordinator does."""
        self._assignment.count_states()

    def roll_up(self, counts: dict[tuple[str, Outcome], tuple[int, float]]) -> None:
        """Adds (count, seconds) to this minute's outcomes, as an agent does."""
        self._execution.roll_up(counts)

    def start(self, job: str) -> int:
        """Assigns and claims the queued job; its attempt."""
        seen = {candidate.id: candidate for candidate in self._assignment.survey(1000).candidates}
        contract = seen[UUID(job)].contract
        self._assignment.assign([Assignment(UUID(job), self.id, self.incarnation, contract)])
        claims = self._execution.claim(uuid4(), 100)
        return next(claim.attempt for claim in claims if claim.job == UUID(job))

    def end(self, job: str, attempt: int, outcome: Outcome, **values: Any) -> None:
        """Acknowledges the attempt with JSON texts `result`, `error`, its `output`, a retry's `delay`."""
        ack = Ack(
            job=UUID(job),
            attempt=attempt,
            outcome=outcome,
            result=values.get("result"),
            error=values.get("error"),
            seconds=0.5,
            delay=values.get("delay"),
            output=values.get("output"),
        )
        assert self._execution.acknowledge([ack]).applied

    def kill_off(self, job: str) -> None:
        """Takes the queued job to its death in one attempt."""
        self.end(job, self.start(job), Outcome.FAILED, error='{"type": "E", "message": "no luck"}')

    def close(self) -> None:
        self.database.close()


class Door:
    """A running web server: `http` speaks to it, `node` runs what it accepts."""

    def __init__(self, url: str, node: HandDrivenNode, settings: dict[str, object], pid: int) -> None:
        self.url = url
        self.node = node
        self.settings = settings
        self.pid = pid
        self.http = httpx.Client(base_url=url, timeout=20, trust_env=False)

    def submit(self, **job: Any) -> str:
        """The id of a new job; `echo` unless said otherwise."""
        body = {"handler": "echo", "payload": {"message": "hello"}, **job}
        response = self.http.post("/api/v1/jobs", json=body)
        assert response.status_code == 201, response.text
        return str(response.json()["id"])

    def job(self, job: str) -> dict[str, Any]:
        response = self.http.get(f"/api/v1/jobs/{job}")
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    def count(self) -> int:
        """How many jobs are stored."""
        with self.node.database.transaction() as tx:
            return int(
                tx.rows("SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM finished_jobs) AS n")[0].n
            )

    def raw(self, request: bytes) -> bytes:
        """Sends bytes as they are and reads until the server closes."""
        address = self.url.removeprefix("http://").split(":")
        with socket.create_connection((address[0], int(address[1])), timeout=20) as connection:
            connection.sendall(request)
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
        return answer


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def toml(settings: dict[str, object]) -> str:
    """The settings as a file; JSON's values are also TOML's here."""
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())


@contextmanager
def web_server(directory: Path, settings: dict[str, object]) -> Iterator[tuple[str, int]]:
    """A `mutirao web` process of its own: its URL and pid; ended with SIGTERM, by its pid."""
    directory.mkdir(parents=True, exist_ok=True)
    config = directory / "mutirao.toml"
    config.write_text(toml(settings))
    config.chmod(0o600)
    host = "[::1]" if settings.get("web_host") == "::1" else "127.0.0.1"
    url = f"http://{host}:{settings['web_port']}"
    with (directory / "web.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mutirao", "web", "--config", str(config)],
            stdout=log,
            stderr=log,
            env={**os.environ},
        )
    try:
        until(lambda: process.poll() is not None or _alive(url), 20, "the web server answers")
        assert process.poll() is None, (directory / "web.log").read_text()
        yield url, process.pid
    finally:
        process.terminate()
        assert process.wait(20) == 0, (directory / "web.log").read_text()


def _alive(url: str) -> bool:
    try:
        return httpx.get(f"{url}/livez", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@contextmanager
def open_door(directory: Path, dsn: str, redis_url: str, **more: object) -> Iterator[Door]:
    """A web server with a hand-driven node behind it."""
    settings: dict[str, object] = {
        "node_name": "node-1",
        "postgres": dsn,
        "redis": redis_url,
        "state_dir": str(directory),
        "runtime_dir": str(directory),
        "web_port": free_port(),
        **more,
    }
    node = HandDrivenNode(dsn)
    try:
        with web_server(directory, settings) as (url, pid):
            door = Door(url, node, settings, pid)
            yield door
            door.http.close()
    finally:
        node.close()
