"""What goes wrong at a start has its own message: what is wrong, what to do, an exit code, no traceback."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
import psycopg.sql
import pytest

from mutirao.agent.identity import NodeIdentity
from mutirao.embedded.room import FOR_A_NEW, require_room
from mutirao.errors import MutiraoError
from mutirao.store.migrate import migrate
from tests.integration.conftest import DatabaseServer
from tests.support.cluster import free_ports
from tests.support.door import free_port
from tests.support.handlers_dir import handlers_dir, program

ROOT = Path(__file__).parents[2]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that the servers' account may pass through."""
    with tempfile.TemporaryDirectory(prefix="mutirao-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def mutirao(*arguments: object, before: Sequence[str] = (), **environment: str) -> tuple[int, str]:
    """The exit status and what went to standard error, which holds no traceback."""
    argv = [*before, sys.executable, "-m", "mutirao", *map(str, arguments)]
    done = subprocess.run(
        argv, capture_output=True, text=True, cwd="/", timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip
    assert "Traceback" not in done.stderr + done.stdout
    return done.returncode, done.stderr


def up(home: Path, *arguments: object, before: Sequence[str] = ()) -> tuple[int, str]:
    port = free_port()
    return mutirao("up", "--data", home / "data", "--nodes", 1, "--port", port, *arguments, before=before)


def test_a_taken_port_of_any_node(home: Path) -> None:
    first = free_ports(2)
    with socket.create_server(("127.0.0.1", first + 1)):
        # What `up` decides for its nodes hides what the environment says.
        arguments = ("up", "--data", home / "data", "--nodes", 2, "--port", first)
        status, said = mutirao(*arguments, MUTIRAO_WEB_HOST="0.0.0.0")
    assert status == 5
    assert f"port {first + 1} on 127.0.0.1 is taken by pid {os.getpid()}" in said
    assert "--port" in said


def test_a_taken_port_of_a_web_server_and_of_an_agent(home: Path) -> None:
    stores = {"MUTIRAO_POSTGRES": "postgresql://127.0.0.1:1/x", "MUTIRAO_REDIS": "redis://127.0.0.1:1/0"}
    places = {"MUTIRAO_STATE_DIR": str(home / "state"), "MUTIRAO_RUNTIME_DIR": str(home / "runtime")}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        status, said = mutirao("web", **stores, **places, MUTIRAO_WEB_PORT=port)
        assert (status, f"port {port} on 127.0.0.1 is taken" in said) == (5, True)
        status, said = mutirao("agent", **stores, **places, MUTIRAO_AGENT_PORT=port)
        assert (status, f"port {port} on 127.0.0.1 is taken" in said) == (5, True)


@as_root
def test_a_full_disk(home: Path) -> None:
    script = f'mount -t tmpfs -o size=16m,mode=0755 test {home} && exec "$@"'
    status, said = up(home, before=("unshare", "-m", "sh", "-c", script, "sh"))
    assert status == 1
    assert f"the disk of {home / 'data'} is full" in said
    assert "make room" in said


def test_room_is_asked_for_before_a_start(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_room(home, new=True)
    monkeypatch.setattr("mutirao.embedded.room.FOR_A_NEW", FOR_A_NEW << 40)
    with pytest.raises(MutiraoError, match="a new cluster needs"):
        require_room(home, new=True)


@as_root
@pytest.mark.parametrize("made", [False, True], ids=["new", "old"])
def test_a_read_only_data_directory(home: Path, made: bool) -> None:
    if made:
        for name in ("logs", "nodes"):
            (home / "data" / name).mkdir(parents=True)
    status, said = up(home, before=read_only(home))
    assert status == 1
    assert f"cannot use the data directory {home / 'data'}: Read-only file system" in said
    assert "--data" in said


@as_root
def test_a_read_only_checkout_and_an_absent_redis_are_no_obstacles(home: Path) -> None:
    arguments = ["up", "--data", str(home / "data"), "--nodes", "1", "--port", str(free_port())]
    arguments += ["--redis", f"redis://:hunter2@127.0.0.1:{free_port()}/0"]
    argv = [*read_only(ROOT), sys.executable, "-m", "mutirao", *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment) as cluster:
        assert cluster.stdout is not None
        said = [
            line.strip() for line in itertools.takewhile(lambda line: "Logs:" not in line, cluster.stdout)
        ]
        written = tomllib.loads((home / "data" / "nodes" / "1" / "mutirao.toml").read_text())
        cluster.send_signal(signal.SIGTERM)
        assert "Ready:" in said
        assert any("all goes on by PostgreSQL alone" in line for line in said)
        assert "hunter2" not in "".join(said)
        # From the database's id: another cluster on the same Redis has another.
        assert re.fullmatch("mutirao-[0-9a-f]{12}", written["redis_prefix"])
        assert "Stopped." in cluster.stdout.read()
    assert cluster.returncode == 0


@as_root
def test_an_unprepared_read_only_checkout_says_what_to_do(home: Path) -> None:
    for name in ("scripts", "requirements"):
        subprocess.run(["cp", "-r", str(ROOT / name), str(home)], check=True)
    subprocess.run(["cp", str(ROOT / "pyproject.toml"), str(ROOT / "Makefile"), str(home)], check=True)
    done = subprocess.run(
        [*read_only(home), "make", "-C", str(home), "run"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert f"{home} is read-only" in done.stderr
    assert "cp -a" in done.stderr


def read_only(path: Path) -> list[str]:
    script = f'mount --bind {path} {path} && mount -o remount,ro,bind {path} && exec "$@"'
    return ["unshare", "-m", "sh", "-c", script, "sh"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"postgres/PG_VERSION": "12\n"}, "was written by PostgreSQL 12, this is PostgreSQL"),
        ({"postgres/readme": ""}, "postgres is there but holds no PostgreSQL data"),
        ({"thesis.odt": ""}, "is not a cluster's data directory: it holds thesis.odt"),
        ({"secrets.json": "{}"}, "cannot be read as passwords"),
    ],
)
def test_a_directory_that_is_not_ours_to_start_on(home: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (home / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / "data" / name).write_text(text)
    status, said = up(home)
    assert status == 1
    assert message in said


@pytest.mark.parametrize(
    ("option", "value", "status", "message"),
    [
        ("--postgres", "postgresql://u:hunter2@127.0.0.1:1/x", 3, "PostgreSQL cannot be migrated: "),
        ("--postgres", "hunter2", 2, "`postgres`: must start with postgresql://"),
        ("--postgres", "postgres//hunter2=x", 2, "`postgres` is not a usable DSN"),
        ("--redis", "http://:hunter2@x", 2, "`redis`: must start with redis://"),
        ("--redis-prefix", "a:b", 2, "`redis_prefix`"),
        ("--allow-command", "/nowhere/rsync", 2, "/nowhere/rsync"),
    ],
)
def test_what_up_is_told_is_checked_and_no_password_repeated(
    home: Path, option: str, value: str, status: int, message: str
) -> None:
    found, said = up(home, option, value)
    assert (found, message in said) == (status, True), said
    assert "hunter2" not in said


def test_up_starts_nothing_with_handlers_that_no_agent_would_start_with(home: Path) -> None:
    directory = handlers_dir(home)
    path = program(directory, "tool", "cat")
    path.chmod(0o644)
    status, said = up(home, "--handlers", directory)
    assert status == 2
    assert said.splitlines() == [
        f"mutirao: an agent would not start: {path} is not executable", f"  hint: chmod +x {path}"
    ]  # fmt: skip
    assert not (home / "data").exists()


def test_a_schema_from_the_future(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute("UPDATE mutirao.alembic_version SET version_num = '9999'")
    status, said = mutirao("migrate", "--postgres", postgres_dsn)
    assert (status, "does not know the schema" in said) == (1, True)
    assert "newer version" in said


def test_a_database_that_cannot_hold_every_text(database_server: DatabaseServer) -> None:
    with psycopg.connect(database_server.postgres.superuser_dsn, autocommit=True) as connection:
        connection.execute("CREATE DATABASE ascii OWNER mutirao ENCODING 'SQL_ASCII' TEMPLATE template0")
    dsn = database_server.dsn("ascii")
    try:
        status, said = mutirao("migrate", "--postgres", dsn)
        assert (status, "encoding is SQL_ASCII" in said, "TEMPLATE template0" in said) == (1, True, True)
    finally:
        database_server.drop(dsn)


def test_a_postgresql_that_is_too_old(empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mutirao.store.migrate.OLDEST", 99)
    with pytest.raises(MutiraoError, match="is too old"):
        migrate(empty_dsn)


def test_a_role_that_may_not_make_a_schema(database_server: DatabaseServer, empty_dsn: str) -> None:
    with psycopg.connect(database_server.superuser_dsn(empty_dsn), autocommit=True) as connection:
        name = psycopg.sql.Identifier(connection.info.dbname)
        connection.execute(psycopg.sql.SQL("ALTER DATABASE {} OWNER TO postgres").format(name))
    status, said = mutirao("migrate", "--postgres", empty_dsn)
    assert (status, "permission denied" in said, "GRANT CREATE ON DATABASE" in said) == (3, True, True)


def test_a_postgresql_that_is_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        status, said = mutirao("migrate", "--postgres", f"postgresql://127.0.0.1:{silent.getsockname()[1]}/x")
    assert (status, "cannot be migrated" in said) == (3, True)


def test_an_incarnation_that_cannot_be_noted_is_no_end(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    identity = NodeIdentity(tmp_path / "state", runtime)
    identity.remember(1)
    assert identity.last_incarnation() == 1
    shutil.rmtree(runtime)
    identity.remember(2)
    # Nothing is noted, so the next start watches for a twin, as on another machine.
    assert identity.last_incarnation() is None
    identity.close()


def test_a_full_log_disk_ends_no_thread() -> None:
    code = """
import sys, threading
from mutirao import logs
from mutirao.loop import Loop
logs.configure("info")
ran = []
def run_once():
    ran.append(1)
    logs.get_logger("x").info("turn")
    if len(ran) == 3:
        done.set()
    raise OSError("every turn fails, and cannot say so")
done = threading.Event()
loop = Loop("l", run_once, retry=0.01)
loop.start()
print(done.wait(10), loop.is_alive())
"""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=full, text=True, check=False
        )
    assert done.stdout.split() == ["True", "True"]
