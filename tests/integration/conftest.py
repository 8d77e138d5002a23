"""Real servers: one PostgreSQL and one Redis-protocol server a session, a fresh database for each test."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import redis
from psycopg import sql

from mutirao.embedded.postgres import Postgres
from mutirao.embedded.valkey import Valkey
from tests.support.door import Door, open_door
from tests.support.http_server import Site, site

# Committed rows need not survive the machine here; all else is as in production.
FAST = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "64MB"}


class DatabaseServer:
    """A running PostgreSQL that makes and drops databases; `postgres` can be stopped and started again."""

    def __init__(self, postgres: Postgres) -> None:
        self.postgres = postgres
        self._numbers = itertools.count(1)

    def create(self, template: str | None = None) -> str:
        """The DSN of a new database, a copy of `template` or empty, owned by the application's role."""
        name = f"test_{next(self._numbers)}"
        # Copying files takes half as long as logging every block, and this log is never replayed.
        copied = sql.SQL(" STRATEGY file_copy TEMPLATE {}").format(sql.Identifier(template or "template1"))
        self._execute(sql.SQL("CREATE DATABASE {} OWNER mutirao").format(sql.Identifier(name)) + copied)
        return self.dsn(name)

    def drop(self, dsn: str) -> None:
        """Drops the database, ending whoever is still connected."""
        name = urlsplit(dsn).path.lstrip("/")
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def dsn(self, database: str) -> str:
        """Where the application's role connects to `database`."""
        return urlunsplit(urlsplit(self.postgres.dsn)._replace(path=f"/{database}"))

    def superuser_dsn(self, dsn: str) -> str:
        """The same database for the superuser, to terminate sessions and change settings."""
        return urlunsplit(urlsplit(self.postgres.superuser_dsn)._replace(path=urlsplit(dsn).path))

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.postgres.superuser_dsn, autocommit=True) as connection:
            connection.execute(statement)


@pytest.fixture(scope="session")
def server_home() -> Iterator[Path]:
    """A folder that the servers' account can enter, which pytest's own are not when we are root."""
    home = Path(tempfile.mkdtemp(prefix="mutirao-test-"))
    if os.geteuid() == 0:
        home.chmod(0o711)
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def database_server(server_home: Path) -> Iterator[DatabaseServer]:
    postgres = Postgres(server_home, server_home, options=FAST)
    postgres.start()
    yield DatabaseServer(postgres)
    postgres.stop()


@pytest.fixture(scope="session")
def migrated_template(database_server: DatabaseServer) -> str:
    """The name of a database with the whole schema and nothing else."""
    from mutirao.store.migrate import migrate

    dsn = database_server.create()
    migrate(dsn)
    return urlsplit(dsn).path.lstrip("/")


@pytest.fixture
def postgres_dsn(database_server: DatabaseServer, migrated_template: str) -> Iterator[str]:
    """A fresh migrated database for this test alone."""
    dsn = database_server.create(migrated_template)
    yield dsn
    database_server.drop(dsn)


@pytest.fixture
def empty_dsn(database_server: DatabaseServer) -> Iterator[str]:
    """A fresh database without any schema."""
    dsn = database_server.create()
    yield dsn
    database_server.drop(dsn)


@pytest.fixture(scope="session")
def redis_server(server_home: Path) -> Iterator[Valkey]:
    """The session's Redis-protocol server, to be stopped and started by tests about its absence."""
    server = Valkey(server_home, server_home)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def redis_url(redis_server: Valkey) -> str:
    """An empty Redis-protocol server."""
    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
    return redis_server.url


@pytest.fixture(scope="session")
def door(
    database_server: DatabaseServer, migrated_template: str, redis_server: Valkey, server_home: Path
) -> Iterator[Door]:
    """A web server over a database of its own, for all tests that leave it as good as it was."""
    dsn = database_server.create(migrated_template)
    with open_door(server_home / "door", dsn, redis_server.url) as opened:
        yield opened
    database_server.drop(dsn)


@pytest.fixture(scope="module")
def running_site() -> Iterator[Site]:
    with site() as made:
        yield made


@pytest.fixture
def here(running_site: Site) -> Site:
    """A web site that says hello and has been asked nothing yet."""
    running_site.asked.clear()
    running_site.answers.clear()
    running_site.answers["/"] = (200, {"Content-Type": "text/plain"}, b"hello")
    return running_site
