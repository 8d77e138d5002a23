"""Connections to PostgreSQL: how a session is set up, checked, bounded in time, and left."""

from __future__ import annotations

import select
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg.pq import TransactionStatus
from psycopg.rows import namedtuple_row
from psycopg_pool import ConnectionPool

from mutirao.loop import boottime
from mutirao.store.columns import ColumnDumper

_SESSION = {
    "search_path": "mutirao,public",
    "timezone": "UTC",
    "statement_timeout": "10s",
    "lock_timeout": "3s",
    "idle_in_transaction_session_timeout": "5s",
    "jit": "off",
    # Not left to whoever configures the server: what is true here depends on these.
    "client_min_messages": "warning",
    "default_transaction_isolation": r"read\ committed",
    "synchronous_commit": "on",
}
# Queues fill and empty faster than statistics follow: indexes are always right, and planning once is enough.
_STEADY_PLANS = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_bitmapscan": "off"}
# PostgreSQL 17 and newer end a session whose client is frozen between two statements, too.
_HAS_TRANSACTION_TIMEOUT = 170000
_TRANSACTION_WITHIN = 20
# So long after its last use a connection is taken for good without asking the server.
TRUSTED = 1.0
# A frozen server keeps its connections open: only this bounds the wait for it (above statement_timeout).
ANSWER_WITHIN = 12.0


class Connection(psycopg.Connection[Any]):
    """Gives up, and closes, where no answer comes; keeps what the server warned of."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.warnings: list[str] = []
        self.used_at = float("-inf")
        self.proven = True

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """As psycopg's, but for ever is no time to wait."""
        try:
            return super().wait(gen, interval, ANSWER_WITHIN if timeout is None else timeout)
        except pg._WaitTimeout:
            self.pgconn.finish()  # else leaving the pipeline would wait once more
            raise


def connection_pool(
    dsn: str, *, application_name: str, size: int, timeout: float, steady_plans: bool
) -> ConnectionPool[Connection]:
    """A pool, not yet open, of at most `size` connections; each is checked before it is lent."""
    session = {**_SESSION, **(_STEADY_PLANS if steady_plans else {})}
    return ConnectionPool(
        dsn,
        connection_class=Connection,
        min_size=0,
        max_size=size,
        timeout=timeout,
        max_idle=300.0,
        reconnect_timeout=3.0,
        num_workers=1,
        open=False,
        check=_check,
        configure=_configure,
        kwargs={
            "autocommit": True,
            "options": " ".join(f"-c {name}={value}" for name, value in session.items()),
            "application_name": application_name[:63],
            "connect_timeout": 3,
            "tcp_user_timeout": 5000,
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "row_factory": namedtuple_row,
        },
    )


def _configure(connection: Connection) -> None:
    def hear(diagnostic: psycopg.errors.Diagnostic) -> None:
        # A cancelled wait for standbys is only a warning, and its text depends on the server's language.
        if diagnostic.severity_nonlocalized == "WARNING":
            connection.warnings.append(diagnostic.message_primary or "")

    connection.add_notice_handler(hear)
    connection.adapters.register_dumper(list, ColumnDumper)
    if connection.info.server_version >= _HAS_TRANSACTION_TIMEOUT:
        connection.execute(f"SET transaction_timeout = '{_TRANSACTION_WITHIN}s'")


def leave(connection: Connection) -> None:
    """Ends whatever transaction is open; a connection that cannot be brought to rest is closed."""
    if connection.info.transaction_status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN):
        with suppress(psycopg.Error):
            connection.execute("ROLLBACK")
    if connection.info.transaction_status != TransactionStatus.IDLE:
        connection.close()


def _check(connection: Connection) -> None:
    """As the pool's own check, but a round trip only where there is news or it was long unused."""
    connection.proven = boottime() - connection.used_at > TRUSTED or _has_news(connection)
    if connection.proven:
        ConnectionPool.check_connection(connection)


def _has_news(connection: Connection) -> bool:
    # A server that ended the session has said so, or has closed its end: both make the socket readable.
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return bool(poll.poll(0))
