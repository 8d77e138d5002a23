"""One open transaction: statements are pipelined, nothing waits for an answer until somebody reads one."""

from __future__ import annotations

import select
from collections.abc import Mapping
from typing import Any

import psycopg

from mutirao.store.connection import ANSWER_WITHIN


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
            poll = select.poll()
            poll.register(server.socket, select.POLLIN | select.POLLOUT)
            ready = poll.poll(ANSWER_WITHIN * 1000)
            if not ready:
                raise psycopg.OperationalError("the server takes nothing")
            if ready[0][1] & select.POLLIN:
                server.consume_input()
