"""Transactions on PostgreSQL: one pool a process, driver errors wrapped once, unknown commits told apart.

A transaction's statements are pipelined: nothing waits for an answer until somebody reads one.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.pq import TransactionStatus
from psycopg.rows import namedtuple_row
from psycopg_pool import ConnectionPool, PoolTimeout

from mutirao.errors import Fenced, InvalidInput, OutcomeUnknown, StoreUnavailable, Superseded
from mutirao.logs import get_logger
from mutirao.metrics import FENCED, UNKNOWN_COMMITS

log = get_logger(__name__)
T = TypeVar("T")

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
_ATTEMPTS = 5
# PostgreSQL 17 and newer end a session whose client is frozen between two statements, too.
_HAS_TRANSACTION_TIMEOUT = 170000
_TRANSACTION_WITHIN = 20


# A frozen server keeps its connections open: only this bounds the wait for it (above statement_timeout).
ANSWER_WITHIN = 12.0


class _Connection(psycopg.Connection[Any]):
    """Gives up, and closes, where no answer comes."""

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        try:
            return super().wait(gen, interval, ANSWER_WITHIN if timeout is None else timeout)
        except pg._WaitTimeout:
            self.pgconn.finish()  # else leaving the pipeline would wait once more
            raise


class TermHeld(NamedTuple):
    """An office: what the fence compares."""

    term: int
    holder: str


class Answer:
    """What a sent statement answers; reading it waits for everything that was sent so far."""

    def __init__(self, transaction: Transaction, cursor: psycopg.Cursor[Any]) -> None:
        self._transaction = transaction
        self._cursor = cursor

    def fetchall(self) -> list[Any]:
        """All rows."""
        self._transaction.sync()
        return self._cursor.fetchall()

    def fetchone(self) -> Any | None:
        """The first row, None if there is none."""
        self._transaction.sync()
        return self._cursor.fetchone()

    @property
    def rowcount(self) -> int:
        """How many rows the statement touched."""
        self._transaction.sync()
        return self._cursor.rowcount


class Transaction:
    """One open transaction; every answer it gives is provisional until `transaction()` ends without error."""

    def __init__(self, connection: psycopg.Connection[Any], pipeline: psycopg.Pipeline) -> None:
        self._connection = connection
        self._pipeline = pipeline
        self._synced = False

    def rows(self, query: str, params: Mapping[str, object] | None = None) -> list[Any]:
        """Runs the statement and waits for its rows."""
        return self.send(query, params).fetchall()

    def row(self, query: str, params: Mapping[str, object] | None = None) -> Any | None:
        """Runs the statement and waits for its first row, None if there is none."""
        return self.send(query, params).fetchone()

    def one(self, query: str, params: Mapping[str, object] | None = None) -> Any:
        """Runs the statement and waits for its first row, which there always is."""
        row = self.row(query, params)
        if row is None:
            raise LookupError(f"no row from: {query[:80]}")
        return row

    def execute(self, query: str, params: Mapping[str, object] | None = None) -> int:
        """Runs the statement and waits for the number of rows it touched."""
        return self.send(query, params).rowcount

    def send(self, query: str, params: Mapping[str, object] | None = None) -> Answer:
        """Sends the statement without waiting; its answer is read later."""
        self._synced = False
        return Answer(self, self._connection.execute(query, params))

    def sync(self) -> None:
        """Waits until everything sent so far has been carried out.

        Only after this does the server take the session for idle, and end it if nothing more comes: a mere
        flush would let a client that is frozen here keep its locks for ever.
        """
        if not self._synced:
            self._push()
            self._pipeline.sync()
            self._synced = True

    def _push(self) -> None:
        """Gets out what the socket's buffer could not hold: the driver's sync only waits for answers."""
        server = self._connection.pgconn
        while server.flush():
            readable, writable, _ = select.select([server.socket], [server.socket], [], ANSWER_WITHIN)
            if readable:
                server.consume_input()
            if not readable and not writable:
                raise psycopg.OperationalError("the server takes nothing")


class Database:
    """A pool of at most `size` connections, opened when first needed and checked before they are lent.

    With `steady_plans` every statement keeps one index-only plan: for the few that run all the time.
    """

    def __init__(
        self,
        dsn: str,
        *,
        application_name: str,
        size: int = 1,
        timeout: float = 5.0,
        steady_plans: bool = False,
    ) -> None:
        session = {**_SESSION, **(_STEADY_PLANS if steady_plans else {})}
        self._pool: ConnectionPool[psycopg.Connection[Any]] = ConnectionPool(
            dsn,
            connection_class=_Connection,
            min_size=0,
            max_size=size,
            timeout=timeout,
            max_idle=300.0,
            reconnect_timeout=3.0,
            num_workers=1,
            open=False,
            check=ConnectionPool.check_connection,
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
        self._opened = False

    def close(self) -> None:
        """Closes every connection; open transactions are rolled back."""
        self._pool.close(timeout=2.0)

    @contextmanager
    def transaction(
        self, *, synchronous: bool = True, office: TermHeld | None = None
    ) -> Iterator[Transaction]:
        """Commits when the block ends, rolls back when it raises.

        With `office` the transaction first takes the term row under that term and holder (the fence, I3).
        Raises OutcomeUnknown when the commit's answer was lost or its wait for standbys cancelled,
        Fenced, Superseded, StoreUnavailable (nothing was changed).
        """
        with self._lent() as connection:
            state = _Progress()
            try:
                with connection.pipeline() as pipeline:
                    connection.execute("BEGIN")
                    if not synchronous:
                        connection.execute("SET LOCAL synchronous_commit = off")
                    if office is not None:
                        connection.execute("SELECT fence(%s, %s)", (office.term, office.holder))
                    yield Transaction(connection, pipeline)
                    _warnings(connection).clear()
                    state.committing = True
                    connection.execute("COMMIT")
            except psycopg.Error as error:
                # A pipeline that broke off leaves the driver sure of statements that were never prepared.
                state.lost = connection.closed
                connection.close()
                raise _translate(error, state) from error
            except UnicodeError as error:
                raise InvalidInput("", f"a text cannot be sent to PostgreSQL: {error}") from error
            finally:
                _leave(connection)
            if _warnings(connection):
                UNKNOWN_COMMITS.inc()
                raise OutcomeUnknown(f"PostgreSQL warned at commit: {_warnings(connection)[0]}")

    def run(
        self,
        work: Callable[[Transaction], T],
        *,
        synchronous: bool = True,
        office: TermHeld | None = None,
    ) -> T:
        """Runs `work` in a transaction, up to five times if a deadlock or serialization failure ends it."""
        for _ in range(_ATTEMPTS - 1):
            try:
                with self.transaction(synchronous=synchronous, office=office) as tx:
                    return work(tx)
            except _TryAgain:
                continue
        with self.transaction(synchronous=synchronous, office=office) as tx:
            return work(tx)

    @contextmanager
    def _lent(self) -> Iterator[psycopg.Connection[Any]]:
        if not self._opened:
            self._pool.open()
            self._opened = True
        try:
            connection = self._pool.getconn()
        except (PoolTimeout, psycopg.Error) as error:
            raise StoreUnavailable(
                "PostgreSQL cannot be reached", hint="Is the server up? See `mutirao settings check`."
            ) from error
        try:
            yield connection
        finally:
            self._pool.putconn(connection)


class _Progress:
    committing = False
    lost = False


class _TryAgain(StoreUnavailable):
    """A deadlock or serialization failure: the same work may simply run again."""


def _warnings(connection: psycopg.Connection[Any]) -> list[str]:
    warnings: list[str] = connection.__dict__.setdefault("mutirao_warnings", [])
    return warnings


def _configure(connection: psycopg.Connection[Any]) -> None:
    heard = _warnings(connection)

    def hear(diagnostic: psycopg.errors.Diagnostic) -> None:
        # A cancelled wait for standbys is only a warning, and its text depends on the server's language.
        if diagnostic.severity_nonlocalized == "WARNING":
            heard.append(diagnostic.message_primary or "")

    connection.add_notice_handler(hear)
    if connection.info.server_version >= _HAS_TRANSACTION_TIMEOUT:
        connection.execute(f"SET transaction_timeout = '{_TRANSACTION_WITHIN}s'")


def _leave(connection: psycopg.Connection[Any]) -> None:
    if connection.info.transaction_status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN):
        with suppress(psycopg.Error):
            connection.execute("ROLLBACK")
    if connection.info.transaction_status != TransactionStatus.IDLE:
        connection.close()


def _translate(error: psycopg.Error, state: _Progress) -> Exception:
    code = error.sqlstate or ""
    ours = _OURS.get(code)
    if ours is not None:
        if ours is Fenced:
            FENCED.inc()
        return ours(str(error))
    if isinstance(error, psycopg.DataError) or code.startswith("54"):
        return InvalidInput("", f"PostgreSQL refused a value: {error}")
    if isinstance(error, _DEFECTS) and not isinstance(error, pg.ReadOnlySqlTransaction):
        return error  # of ours, not an outage: let it be seen as one
    if state.committing and (state.lost or code[:3] in _LOST):
        UNKNOWN_COMMITS.inc()
        return OutcomeUnknown("the connection was lost at commit")
    return StoreUnavailable(
        f"PostgreSQL: {str(error).strip() or type(error).__name__}", hint=_HINTS.get(code, "")
    )


_HINTS = {
    "53100": "its disk is full: make room on it; nothing acknowledged is lost, and all goes on by itself",
    "53200": "its machine has no memory left",
    "53300": "it has no connection left: raise max_connections, or find out who holds them",
    "25006": "this server is a standby: point the `postgres` setting at the primary",
}
_DEFECTS = (pg.IntegrityError, pg.ProgrammingError)
_LOST = ("", "57P", "080")
_OURS: Mapping[str, Callable[[str], Exception]] = {
    "MU001": Fenced,
    "MU002": Superseded,
    "40P01": _TryAgain,
    "40001": _TryAgain,
}
