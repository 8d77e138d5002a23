"""Transactions on PostgreSQL: one pool a process, driver errors wrapped once, unknown commits told apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg_pool import PoolTimeout

from mutirao.errors import Fenced, InvalidInput, OutcomeUnknown, StoreUnavailable, Superseded
from mutirao.loop import boottime
from mutirao.metrics import FENCED, UNKNOWN_COMMITS
from mutirao.store.connection import ANSWER_WITHIN, Connection, connection_pool, leave
from mutirao.store.transaction import Transaction

__all__ = ["Database", "TermHeld", "Transaction"]

T = TypeVar("T")

_ATTEMPTS = 5
# So long after a vain wait it is known that there is no connection to be had.
_REMEMBERED = 5.0


class TermHeld(NamedTuple):
    """An office: what the fence compares."""

    term: int
    holder: str


class Database:
    """A pool of at most `size` connections, opened when first needed and checked before they are lent.

    Who finds out that there is none to be had waits `timeout` seconds; who comes after that, until there is
    one again, `patience` seconds if that is given: a rush must not keep every thread of a server waiting.
    With `steady_plans` every statement keeps one index-only plan: for the few that run all the time.
    """

    def __init__(
        self,
        dsn: str,
        *,
        application_name: str,
        size: int = 1,
        timeout: float = 5.0,
        patience: float | None = None,
        steady_plans: bool = False,
    ) -> None:
        self._pool = connection_pool(
            dsn,
            application_name=application_name,
            size=size,
            timeout=timeout,
            steady_plans=steady_plans,
        )
        self._patience = patience
        self._missed_at = float("-inf")
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
                    connection.warnings.clear()
                    state.committing = True
                    connection.execute("COMMIT")
            except psycopg.Error as error:
                # A pipeline that broke off leaves the driver sure of statements that were never prepared.
                state.lost = connection.closed
                state.proven = connection.proven
                connection.close()
                raise _translate(error, state) from error
            except UnicodeError as error:
                raise InvalidInput("", f"a text cannot be sent to PostgreSQL: {error}") from error
            finally:
                leave(connection)
            if connection.warnings:
                UNKNOWN_COMMITS.inc()
                raise OutcomeUnknown(f"PostgreSQL warned at commit: {connection.warnings[0]}")

    def run(
        self,
        work: Callable[[Transaction], T],
        *,
        synchronous: bool = True,
        office: TermHeld | None = None,
    ) -> T:
        """Runs `work` in a transaction, up to five times if it was ended before it could do anything."""
        for _ in range(_ATTEMPTS - 1):
            try:
                with self.transaction(synchronous=synchronous, office=office) as tx:
                    return work(tx)
            except _TryAgain:
                continue
        with self.transaction(synchronous=synchronous, office=office) as tx:
            return work(tx)

    @contextmanager
    def _lent(self) -> Iterator[Connection]:
        if not self._opened:
            self._pool.open()
            self._opened = True
        try:
            known = boottime() - self._missed_at < _REMEMBERED
            connection = self._pool.getconn(self._patience if known else None)
            self._missed_at = float("-inf")
        except (PoolTimeout, psycopg.Error) as error:
            self._missed_at = boottime()
            raise StoreUnavailable(
                "PostgreSQL cannot be reached", hint="Is it up? `mutirao doctor` tells why."
            ) from error
        try:
            yield connection
        finally:
            connection.used_at = boottime()
            self._pool.putconn(connection)


class _Progress:
    committing = False
    lost = False
    proven = True


class _TryAgain(StoreUnavailable):
    """Nothing was done, and the same work may simply run again: a deadlock, a connection that had ended."""


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
        return OutcomeUnknown("the connection was lost at commit", hint=_UNKNOWN)
    if isinstance(error, pg._WaitTimeout):
        return StoreUnavailable(f"PostgreSQL does not answer within {ANSWER_WITHIN:g} s", hint=_AWAY)
    said = str(error).strip() or type(error).__name__
    unnoticed = state.lost and not state.proven and not state.committing
    kind = _TryAgain if unnoticed else StoreUnavailable
    return kind(f"PostgreSQL: {said}", hint=_HINTS.get(code, "" if code else _AWAY))


_UNKNOWN = "whether it was done is not known: the same again, under the same key, is done once"
_AWAY = "nothing was changed: try again once it is back"
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
