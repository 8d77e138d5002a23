"""`mutirao doctor` on real services: all fine where all is well, a line of its own for each thing broken."""

from __future__ import annotations

import dataclasses
import json
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mutirao.doctor import postgres
from mutirao.doctor.examine import examine
from mutirao.doctor.finding import Finding, Level
from mutirao.settings import load_settings
from mutirao.store.doctor import Server
from mutirao.store.migrate import head
from tests.support.agents import AgentProcess, Site, site
from tests.support.door import free_port, toml, web_server
from tests.support.valkey import scratch_server
from tests.support.waiting import until

# What this machine is like is not ours to judge, and the tests' own PostgreSQL is fast instead of durable.
LEFT_OUT = {
    "machine.clock", "machine.suspend", "machine.swap", "machine.memory", "machine.files", "node.room",
    "postgres.durable",
}  # fmt: skip


@pytest.fixture
def made(tmp_path: Path, postgres_dsn: str, redis_url: str) -> Iterator[Site]:
    with site(tmp_path, postgres_dsn, redis_url) as made:
        yield made


@pytest.fixture
def one(made: Site, tmp_path: Path) -> Iterator[Node]:
    with tempfile.TemporaryDirectory(prefix="mutirao-test-", dir="/dev/shm") as runtime:
        yield Node(made, tmp_path, runtime)


class Node:
    """One node whose settings a test changes before it is examined."""

    def __init__(self, made: Site, tmp_path: Path, runtime: str) -> None:
        self.agent: AgentProcess = made.agent("examined", runtime_dir=runtime)
        self.runtime = Path(runtime)
        self.settings = {**self.agent.settings, "web_port": free_port()}
        self._file = tmp_path / "examined.toml"

    def examine(self, **changed: object) -> dict[str, dict[str, Any]]:
        """The findings by their check; less those left out."""
        self._file.write_text(toml({**self.settings, **changed}))
        self._file.chmod(0o600)
        findings = map(dataclasses.asdict, examine(lambda: load_settings(self._file, {})))
        return {one["check"]: one for one in findings if one["check"] not in LEFT_OUT}

    def run(self) -> dict[str, dict[str, Any]]:
        """The same as it is, by the command."""
        self.examine()
        return run(self._file)


def run(file: Path) -> dict[str, dict[str, Any]]:
    argv = [sys.executable, "-m", "mutirao", "doctor", "--json", "--config", str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    document = json.loads(done.stdout)
    levels = [one["level"] for one in document["findings"]]
    assert (document["failed"], document["warned"]) == (levels.count("FAIL"), levels.count("WARN"))
    assert done.returncode == (1 if document["failed"] else 0)
    return {one["check"]: one for one in document["findings"] if one["check"] not in LEFT_OUT}


def not_fine(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Each check that is not OK, with its level; every one of them says what to do."""
    assert all(one["hint"] for one in found.values() if one["level"] != "OK")
    return {name: one["level"] for name, one in found.items() if one["level"] != "OK"}


def test_a_healthy_node_is_fine_and_each_broken_thing_has_its_line(
    made: Site, one: Node, tmp_path: Path
) -> None:
    one.agent.start().event("office_taken", 20.0)
    with web_server(tmp_path / "web", one.settings):
        healthy = one.run()
        assert not_fine(healthy) == {}
        assert len(healthy) >= 25
        assert "examined is in office" in healthy["cluster.coordinator"]["message"]

        gone = free_port()
        elsewhere = {"redis": f"redis://127.0.0.1:{gone}/0", "runtime_dir": str(tmp_path), "web_port": gone}
        assert not_fine(one.examine(**elsewhere, handler_modules=["not_there"])) == {
            "redis.connect": "WARN",
            "node.volatile": "WARN",
            "web.alive": "WARN",
            "node.handlers": "FAIL",
        }
        away = not_fine(one.examine(postgres=f"postgresql://127.0.0.1:{gone}/x"))
        assert away == {"postgres.connect": "FAIL"}
        made.stage.write(
            "INSERT INTO nodes (id, name, incarnation, status, slots)"
            " VALUES (gen_random_uuid(), 'examined', 1, 'live', 1)"
        )
        assert not_fine(one.examine(redis_prefix="other", redis_replicas=1)) == {
            "cluster.prefix": "WARN",
            "redis.replicas": "WARN",
            "cluster.name": "WARN",
        }
        made.stage.write("DELETE FROM nodes WHERE slots = 1")
        marker = one.runtime / "incarnation"
        kept = marker.read_text()
        marker.write_text('{"node": "another", "incarnation": 1}')
        assert not_fine(one.examine()) == {"node.identity": "WARN"}
        marker.write_text(kept)
        one.agent.send(signal.SIGSTOP)
        try:
            frozen = {"cluster.beat": "FAIL", "cluster.coordinator": "FAIL"}
            until(lambda: not_fine(one.examine()) == frozen, 10.0, "a frozen agent is told by its beats")
        finally:
            one.agent.send(signal.SIGCONT)


def test_with_nothing_there_it_says_so_and_does_not_break(tmp_path: Path) -> None:
    file = tmp_path / "mutirao.toml"
    missing = run(file)
    assert not_fine(missing) == {"settings": "FAIL"}
    gone = free_port()
    file.write_text(
        toml(
            {
                "postgres": f"postgresql://127.0.0.1:{gone}/x",
                "redis": f"redis://127.0.0.1:{gone}/0",
                "state_dir": str(file),
                "runtime_dir": "/proc/none",
                "web_port": gone,
            }
        )
    )
    file.chmod(0o600)
    found = not_fine(run(file))
    assert (
        found.items()
        >= {
            "node.state_dir": "FAIL",
            "redis.connect": "WARN",
            "postgres.connect": "FAIL",
            "web.alive": "WARN",
        }.items()
    )


def test_an_empty_database_and_a_foreign_server_on_the_port(
    tmp_path: Path, empty_dsn: str, redis_url: str
) -> None:
    file = tmp_path / "mutirao.toml"
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        settings = {"postgres": empty_dsn, "redis": redis_url, "web_port": foreign.getsockname()[1]}
        file.write_text(toml({**settings, "state_dir": str(tmp_path), "runtime_dir": str(tmp_path)}))
        file.chmod(0o600)
        found = run(file)
    assert found["postgres.schema"]["level"] == "FAIL"
    assert "mutirao migrate" in found["postgres.schema"]["hint"]
    assert found["web.alive"]["level"] == "FAIL"
    assert "Address already in use" in found["web.alive"]["message"]


def test_a_token_that_the_web_server_does_not_take(one: Node, tmp_path: Path) -> None:
    with web_server(tmp_path / "web", {**one.settings, "api_token": "right"}):
        assert one.examine(api_token="right")["web.token"]["level"] == "OK"
        assert one.examine(api_token="wrong")["web.token"]["level"] == "FAIL"


def test_a_redis_that_is_full_or_would_forget(tmp_path: Path, one: Node) -> None:
    with scratch_server(tmp_path, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction") as server:
        full = one.examine(redis=server.url)
        assert full["redis.writable"]["level"] == full["redis.memory"]["level"] == "WARN"
        assert "maxmemory" in full["redis.writable"]["message"]
        client = server.client()
        client.config_set("maxmemory", "256mb")
        client.config_set("maxmemory-policy", "allkeys-lru")
        assert "allkeys-lru" in one.examine(redis=server.url)["redis.memory"]["message"]


GOOD = Server(
    version=180000, encoding="UTF8", read_only=False, durable=True, autovacuum=True,
    idle_session_timeout=0.0, connections=100, sessions=10, oldest_transaction=0.0,
    revision=head(), ahead=0.1,
)  # fmt: skip


def levels(findings: Iterator[Finding]) -> dict[str, Level]:
    return {one.check: one.level for one in findings if one.level is not Level.OK}


@pytest.mark.parametrize(
    ("fact", "value", "expected"),
    [
        ("version", 180000, {}),
        ("version", 140011, {"postgres.version": Level.FAIL}),
        ("version", 190000, {"postgres.version": Level.WARN}),
        ("encoding", "SQL_ASCII", {"postgres.encoding": Level.FAIL}),
        ("revision", "0001", {"postgres.schema": Level.FAIL}),
        ("revision", "9999", {"postgres.schema": Level.WARN}),
        ("read_only", True, {"postgres.writable": Level.FAIL}),
        ("durable", False, {"postgres.durable": Level.FAIL}),
        ("ahead", -2.0, {"postgres.clock": Level.WARN}),
        ("ahead", 3600.0, {"postgres.clock": Level.FAIL}),
        ("sessions", 95, {"postgres.sessions": Level.WARN}),
        ("idle_session_timeout", 60.0, {"postgres.timeouts": Level.WARN}),
        ("autovacuum", False, {"postgres.vacuum": Level.FAIL}),
        ("oldest_transaction", 900.0, {"postgres.vacuum": Level.WARN}),
    ],
)
def test_facts_about_postgresql_are_judged(fact: str, value: Any, expected: dict[str, Level]) -> None:
    assert levels(postgres.judge(dataclasses.replace(GOOD, **{fact: value}))) == expected
