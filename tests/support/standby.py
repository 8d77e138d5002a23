"""A PostgreSQL whose synchronous standby can be taken away: commits wait until a test says how they end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

from mutirao.embedded.postgres import Postgres
from tests.support.waiting import until

# Without senders the server would not wait for anybody.
OPTIONS = {"max_wal_senders": "2", "fsync": "off", "full_page_writes": "off", "shared_buffers": "32MB"}
_WAITING = (
    b"SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'"
)


class Standby:
    """The server, and its standby that is either not needed or never there."""

    def __init__(self, home: Path) -> None:
        home.mkdir(mode=0o711)
        self._postgres = Postgres(home, home, options=OPTIONS)
        self._numbers = iter(range(1000))

    def start(self) -> None:
        """Starts the server; no standby is needed."""
        self._postgres.start()

    def stop(self) -> None:
        """Ends the server."""
        self._needed("")
        self._postgres.stop()

    def create(self) -> str:
        """The DSN of a new empty database."""
        name = f"standby_{next(self._numbers)}"
        with self._superuser() as connection:
            connection.execute(f"CREATE DATABASE {name} OWNER mutirao".encode())
        return urlunsplit(urlsplit(self._postgres.dsn)._replace(path=f"/{name}"))

    @contextmanager
    def away(self) -> Iterator[None]:
        """From here on every commit waits; at the end those that still do have their standby's answer."""
        self._needed("nobody")
        try:
            until(self._makes_wait, 5.0, "commits wait for the standby", every=0.01)
            yield
        finally:
            self._needed("")

    def waiting(self, count: int = 1) -> list[int]:
        """The backends that wait, as soon as there are `count`."""
        return until(lambda: self._waiting(count), 5.0, f"{count} commits wait", every=0.01)

    def cancel(self, pids: list[int]) -> None:
        """Cancels these waits: only a warning, the transactions stay committed here."""
        self._signal("pg_cancel_backend", pids)

    def terminate(self, pids: list[int]) -> None:
        """Ends these backends while they wait."""
        self._signal("pg_terminate_backend", pids)

    def _signal(self, function: str, pids: list[int]) -> None:
        with self._superuser() as connection:
            connection.execute(f"SELECT {function}(pid) FROM unnest(%s::int[]) AS pid".encode(), (pids,))

    def _waiting(self, count: int) -> list[int]:
        with self._superuser() as connection:
            pids = [row[0] for row in connection.execute(_WAITING)]
        return pids if len(pids) == count else []

    def _makes_wait(self) -> bool:
        """A probe: the setting is in force once the checkpointer has read it, too."""
        with self._superuser("on") as probe:
            probe.pgconn.send_query(b"SELECT pg_logical_emit_message(true, 'probe', '')")
            probe.pgconn.flush()
            pid = probe.info.backend_pid
            state = b"SELECT wait_event, state FROM pg_stat_activity WHERE pid = %s"
            with self._superuser() as watcher:
                event, _ = until(
                    lambda: [r for r in watcher.execute(state, (pid,)) if "SyncRep" in r or "idle" in r],
                    5.0,
                    "the probe waits or ends",
                    every=0.005,
                )[0]
                watcher.execute("SELECT pg_cancel_backend(%s)", (pid,))
            probe.pgconn.finish()
        return bool(event == "SyncRep")

    def _needed(self, name: str) -> None:
        with self._superuser() as connection:
            connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'".encode())
            connection.execute("SELECT pg_reload_conf()")

    def _superuser(self, wait: str = "local") -> psycopg.Connection[Any]:
        # ALTER SYSTEM and the like must never wait for the standby themselves.
        options = f"-c synchronous_commit={wait}"
        return psycopg.connect(self._postgres.superuser_dsn, autocommit=True, options=options)
