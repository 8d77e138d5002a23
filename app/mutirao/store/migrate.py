"""Brings the schema up to this version, forward only; concurrent callers take turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from mutirao.errors import MutiraoError, SettingsError, StoreUnavailable

# What this version is tested with.
OLDEST, NEWEST = 15, 18
_ATTEMPTS = 5
# Any constant will do, as long as nobody else takes it: "mutirao" read as an integer.
_LOCK = 0x6D757469726F


def migrate(dsn: str) -> tuple[str | None, str]:
    """Applies every missing revision under an advisory lock; returns (revision before, revision now).

    Raises StoreUnavailable when PostgreSQL cannot be reached or refuses, MutiraoError for a newer schema.
    """
    engine = create_engine(
        "postgresql+psycopg://",
        creator=lambda: _connect(dsn),
        poolclass=NullPool,
    )
    try:
        return _upgraded(engine)
    except (DBAPIError, psycopg.Error) as error:
        raise _refused(getattr(error, "orig", error)) from error
    except CommandError as error:
        raise MutiraoError(
            f"this version does not know the schema: {error}",
            hint="The database was migrated by a newer version: install that one.",
        ) from error
    finally:
        engine.dispose()


def _upgraded(engine: Engine) -> tuple[str | None, str]:
    # Agents at work take their locks in another order: one of the two has to begin again.
    for _ in range(_ATTEMPTS - 1):
        try:
            with engine.connect() as connection:
                return _upgrade(connection)
        except (DBAPIError, psycopg.Error) as error:
            if not isinstance(getattr(error, "orig", error), psycopg.errors.DeadlockDetected):
                raise
    with engine.connect() as connection:
        return _upgrade(connection)


def head() -> str:
    """The newest revision that this version knows."""
    return ScriptDirectory.from_config(_config()).get_current_head() or ""


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config


def _refused(error: BaseException) -> MutiraoError:
    """Why PostgreSQL would not: told apart by what is to be done."""
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
        # Its text quotes the DSN, and that may hold a password.
        return SettingsError(
            "`postgres` is not a usable DSN", hint="postgresql://user@host/database, or key=value pairs"
        )
    said = str(error).strip()
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        hint = "Let the role make schemas: GRANT CREATE ON DATABASE … TO …"
    elif isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        hint = "This server is a standby: point the `postgres` setting at the primary."
    elif isinstance(error, psycopg.errors.DiskFull):
        hint = "Make room on the disk of PostgreSQL."
    else:
        hint = "Check the `postgres` setting, and that the server is up."
    return StoreUnavailable(f"PostgreSQL cannot be migrated: {said}", hint=hint)


def _upgrade(connection: Connection) -> tuple[str | None, str]:
    connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": _LOCK})
    try:
        connection.execute(text("CREATE SCHEMA IF NOT EXISTS mutirao"))
        connection.commit()
        config = _config()
        config.attributes["connection"] = connection
        before = _revision(connection)
        connection.commit()
        command.upgrade(config, "head")
        connection.commit()
        return before, head()
    finally:
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": _LOCK})


def _connect(dsn: str) -> psycopg.Connection[Any]:
    options = "-c search_path=mutirao,public -c timezone=UTC"
    connection = psycopg.connect(dsn, connect_timeout=5, options=options)
    trouble = _unusable(connection.info)
    if trouble is not None:
        connection.close()
        raise trouble
    return connection


def _unusable(server: psycopg.ConnectionInfo) -> MutiraoError | None:
    """Why nothing should be stored there, if so."""
    major, encoding = server.server_version // 10000, server.parameter_status("server_encoding")
    if major < OLDEST:
        return MutiraoError(f"PostgreSQL {major} is too old", hint=f"Use PostgreSQL {OLDEST} to {NEWEST}.")
    if encoding != "UTF8":
        return MutiraoError(
            f"the database's encoding is {encoding}, which cannot hold every text",
            hint="Make another: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
        )
    return None


def _revision(connection: Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table_schema": "mutirao"})
    return context.get_current_revision()
