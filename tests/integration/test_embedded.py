from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from mutirao.embedded import account, orphans
from mutirao.embedded.postgres import Postgres
from mutirao.embedded.process import spawn, stop
from mutirao.embedded.valkey import Valkey
from mutirao.errors import MutiraoError, Unavailable
from tests.support.waiting import until

SMALL = {"shared_buffers": "16MB", "max_connections": "10", "min_wal_size": "32MB"}
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes accounts")


@pytest.fixture
def home(server_home: Path, request: pytest.FixtureRequest) -> Path:
    path = server_home / request.node.name[:24]
    path.mkdir()
    return path


def value(dsn: str, query: str) -> object:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def test_it_is_durable_private_and_the_applications_role_is_no_superuser(home: Path) -> None:
    server = Postgres(home, home, options=SMALL)
    server.start()
    try:
        for setting in ("fsync", "synchronous_commit", "data_checksums"):
            assert value(server.dsn, f"SHOW {setting}") == "on"
        assert value(server.dsn, "SHOW listen_addresses") == ""
        assert value(server.dsn, "SHOW timezone") == "UTC"
        assert value(server.dsn, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
        assert value(
            server.superuser_dsn, "SELECT bool_and(auth_method = 'scram-sha-256') FROM pg_hba_file_rules"
        )
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(server.dsn.replace("mutirao:", "mutirao:x"))
        assert (home / "postgres").stat().st_mode & 0o777 == 0o700
        assert (home / "secrets.json").stat().st_mode & 0o777 == 0o600
        assert not (home / "postgres.password").exists()
        assert server.process is not None
        arguments = Path(f"/proc/{server.process.pid}/cmdline").read_text()
        assert all(secret not in arguments for secret in (server.dsn[21:45], server.superuser_dsn[22:46]))
    finally:
        server.stop()


def test_rows_outlive_a_killed_server_and_the_next_start(home: Path) -> None:
    server = Postgres(home, home, options=SMALL)
    server.start()
    with psycopg.connect(server.dsn) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS n")
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    again = Postgres(home, home, options=SMALL)
    again.start()
    try:
        assert value(again.dsn, "SELECT n FROM kept") == 42
    finally:
        again.stop()


def test_a_start_ends_the_server_that_an_aborted_run_left(home: Path) -> None:
    left = Postgres(home, home, options=SMALL)
    left.start()
    server = Postgres(home, home, options=SMALL)
    server.start()
    try:
        assert left.process is not None
        assert left.process.wait(5) is not None
        assert value(server.dsn, "SELECT 1") == 1
    finally:
        server.stop()


def test_another_majors_data_directory_is_refused(home: Path) -> None:
    data = home / "postgres"
    data.mkdir()
    (data / "PG_VERSION").write_text("12\n")
    with pytest.raises(MutiraoError, match="written by PostgreSQL 12"):
        Postgres(home, home).start()
    assert [path.name for path in data.iterdir()] == ["PG_VERSION"]


@as_root
def test_root_is_told_which_folder_shuts_the_account_out_and_no_mode_changes(home: Path) -> None:
    shut = home / "shut"
    shut.mkdir(mode=0o700)
    (shut / "data").mkdir()
    with pytest.raises(Unavailable, match=f"cannot enter {shut}") as caught:
        Postgres(shut / "data", home).start()
    assert f"chmod o+x {shut}" in caught.value.hint
    assert shut.stat().st_mode & 0o777 == 0o700


@as_root
def test_roots_servers_run_under_an_account_without_a_login(database_server: object) -> None:
    owner = account.server_account()
    assert owner is not None
    entry = subprocess.run(
        ["getent", "passwd", owner.name], capture_output=True, text=True, check=True
    ).stdout
    assert entry.strip().endswith("/nologin")
    postgres = database_server.postgres  # type: ignore[attr-defined]
    assert Path(f"/proc/{postgres.process.pid}").stat().st_uid == owner.uid != 0


def test_redis_keeps_nothing_over_a_restart_and_wants_its_password(home: Path) -> None:
    server = Valkey(home, home)
    server.start()
    redis.Redis.from_url(server.url).set("a", 1)
    server.stop()
    server.start()
    try:
        client = redis.Redis.from_url(server.url)
        assert client.get("a") is None
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(
                unix_socket_path=str(home / "redis" / "redis.sock"), retry=Retry(NoBackoff(), 0)
            ).ping()
        assert (home / "redis" / "redis.conf").stat().st_mode & 0o777 == 0o600
    finally:
        server.stop()


def test_only_what_carries_the_clusters_mark_is_ended(home: Path) -> None:
    environment = {"PATH": os.defpath}
    marked = spawn(["sleep", "60"], log=home / "a.log", env={**environment, orphans.MARKER: "mine"})
    foreign = spawn(["sleep", "60"], log=home / "a.log", env={**environment, orphans.MARKER: "mine-too"})
    try:
        # It carries its own mark only once the new program has begun.
        mark = f"{orphans.MARKER}=mine".encode()
        until(lambda: mark in Path(f"/proc/{marked.pid}/environ").read_bytes().split(b"\0"), 5.0, "marked")
        assert orphans.end_marked("mine") == [marked.pid]
        assert marked.wait(5) == -signal.SIGKILL
        assert foreign.poll() is None
    finally:
        stop(foreign)


def test_stop_ends_a_child_that_ignores_every_signal_and_is_frozen(home: Path) -> None:
    child = spawn(
        ["sh", "-c", "trap '' TERM INT; echo ready; while :; do sleep 0.05; done"],
        log=home / "a.log", env={"PATH": os.defpath},
    )  # fmt: skip
    assert orphans._wait(lambda: "ready" in (home / "a.log").read_text(), 5.0)
    os.kill(child.pid, signal.SIGSTOP)
    stop(child, (signal.SIGTERM, 0.1), (signal.SIGINT, 0.1))
    assert child.returncode == -signal.SIGKILL


def test_children_end_with_their_parent(home: Path) -> None:
    code = (
        "import sys, os, pathlib; from mutirao.embedded.process import spawn\n"
        f"p = spawn(['sleep', '60'], log=pathlib.Path({str(home / 'a.log')!r}), env={{'PATH': os.defpath}})\n"
        "print(p.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    parent = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert parent.returncode == -signal.SIGKILL
    pid = int(parent.stdout)
    assert orphans._wait(lambda: not _alive(pid), 5.0)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
