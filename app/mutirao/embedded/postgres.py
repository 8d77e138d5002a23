"""An embedded PostgreSQL on a Unix socket: durable, password-protected, never run by root."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from mutirao.embedded import orphans, process, tuning
from mutirao.embedded.account import Account, find_tool, private_directory, require_reach, server_account
from mutirao.embedded.binaries import postgres_binaries
from mutirao.embedded.room import explained, require_room
from mutirao.embedded.secrets import load_secrets
from mutirao.errors import AlreadyRunning, MutiraoError, Unavailable

START_TIMEOUT = 60.0
_BOOTSTRAP = Path(__file__).with_name("bootstrap.sql")


class Postgres:
    """One server over `<data>/postgres`, reachable only through a socket below `runtime`."""

    def __init__(
        self,
        data: Path,
        runtime: Path,
        *,
        connections: int = 100,
        environment: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._owner: Account | None = server_account()
        self._home = data / "postgres"
        self._sockets = runtime / "postgres"
        self._log = data / "logs" / "postgres.log"
        self._secrets = load_secrets(data / "secrets.json")
        self._environment = {"LC_ALL": "C", "PATH": os.defpath, **(environment or {})}
        self._options = {**tuning.options(connections), **(options or {})}
        self._bin = postgres_binaries(self._owner)
        self.process: process.Process | None = None

    @property
    def dsn(self) -> str:
        """Where the application's own role connects to its own database."""
        return self._dsn("mutirao", self._secrets.application, "mutirao")

    @property
    def superuser_dsn(self) -> str:
        """Where the superuser connects; the application never needs it."""
        return self._dsn("postgres", self._secrets.superuser, "postgres")

    def start(self) -> None:
        """Returns once the server accepts connections and the application's database is there."""
        require_reach(self._owner, self._home.parent)
        self._require_ours()
        require_room(self._home.parent, new=not self._home.exists())
        if not self._home.exists():
            self._initialize()
        private_directory(self._sockets, self._owner)
        self._end_predecessor()
        self.launch()
        self.wait_ready()
        self._bootstrap()

    def launch(self) -> process.Process:
        """Starts the server process without waiting for it."""
        settings = {**self._options, "unix_socket_directories": str(self._sockets)}
        argv = [str(self._bin / "postgres"), "-D", str(self._home)]
        for name, value in settings.items():
            argv += ["-c", f"{name}={value}"]
        self.process = process.spawn(
            argv, log=self._log, env=self._environment, owner=self._owner, death_signal=signal.SIGINT
        )
        return self.process

    def wait_ready(self, timeout: float = START_TIMEOUT) -> None:
        """Returns once the server accepts connections; raises when it ended or took too long."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:
                said = f"PostgreSQL ended while starting:\n{process.tail(self._log)}"
                raise explained(said, self._home, kind=Unavailable)
            if self._status() == (self.process.pid, "ready"):
                return
            time.sleep(0.02)
        raise Unavailable(f"PostgreSQL is not ready after {timeout:g} s:\n{process.tail(self._log)}")

    def stop(self) -> None:
        """Ends the server: clean if it can, within half a minute in any case."""
        if self.process is not None:
            process.stop(self.process, (signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0))
            self.process = None
            orphans.wait_gone(self._home, timeout=5.0)

    def _dsn(self, user: str, password: str, database: str) -> str:
        return f"postgresql://{user}:{password}@/{database}?host={self._sockets}"

    def _status(self) -> tuple[int, str] | None:
        """The server's pid and state as it writes them itself; the eighth line is its state."""
        try:
            lines = (self._home / "postmaster.pid").read_text().splitlines()
            return int(lines[0]), lines[7].strip()
        except (OSError, ValueError, IndexError):
            return None

    def _require_ours(self) -> None:
        """Raises unless the data directory is missing or was written by this very major version."""
        version = self._home / "PG_VERSION"
        if not self._home.exists():
            return
        if not version.exists():
            raise MutiraoError(
                f"{self._home} is there but holds no PostgreSQL data",
                hint="move it away if something else put it there, or choose another --data",
            )
        found, mine = version.read_text().strip(), tuning.major_version(self._bin)
        if found != mine:
            raise MutiraoError(
                f"{self._home} was written by PostgreSQL {found}, this is PostgreSQL {mine}",
                hint="dump it with the old version and restore it here, or choose another --data",
            )

    def _initialize(self) -> None:
        scratch = self._home.with_name("postgres.new")
        shutil.rmtree(scratch, ignore_errors=True)
        private_directory(scratch, self._owner)
        password = scratch.with_name("postgres.password")
        password.touch(mode=0o600)
        try:
            if self._owner is not None:
                self._owner.own(password)
            password.write_text(self._secrets.superuser + "\n")
            self._run(
                "initdb", "-D", str(scratch), "-U", "postgres", f"--pwfile={password}",
                "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-instructions",
            )  # fmt: skip
        finally:
            password.unlink(missing_ok=True)
        scratch.rename(self._home)

    def _end_predecessor(self) -> None:
        """Ends a server that an aborted run left on this very data directory."""
        status = self._status()
        if status is not None:
            orphans.end_server(status[0], self._home, (signal.SIGINT, 10.0), (signal.SIGQUIT, 5.0))
        if not orphans.wait_gone(self._home, timeout=10.0):
            raise AlreadyRunning(f"processes of an earlier PostgreSQL still use {self._home}")
        # A killed server that nobody has reaped yet counts as a living one for PostgreSQL.
        for stale in (self._home / "postmaster.pid", self._sockets / ".s.PGSQL.5432.lock"):
            stale.unlink(missing_ok=True)

    def _bootstrap(self) -> None:
        self._run(
            "psql", "--no-psqlrc", "--quiet", "--tuples-only", "--dbname", "postgres",
            "--username", "postgres", "--host", str(self._sockets),
            stdin=_BOOTSTRAP.read_bytes(),
            PGPASSWORD=self._secrets.superuser,
            MUTIRAO_BOOTSTRAP_PASSWORD=self._secrets.application,
        )  # fmt: skip

    def _run(self, program: str, *arguments: str, stdin: bytes = b"", **environment: str) -> None:
        prefix = [find_tool("setpriv"), *self._owner.prefix(), "--"] if self._owner else []
        done = subprocess.run(
            [*prefix, str(self._bin / program), *arguments],
            input=stdin, capture_output=True, cwd="/", check=False,
            env={**self._environment, **environment},
        )  # fmt: skip
        if done.returncode != 0:
            raise explained(f"{program} failed: {done.stderr.decode(errors='replace').strip()}", self._home)
