"""Brings the schema up to this version, forward only; concurrent callers take turns."""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from mutirao.errors import StoreUnavailable

# Any constant will do, as long as nobody else takes it: "mutirao" read as an integer.
_LOCK = 0x6D757469726F


def migrate(dsn: str) -> tuple[str | None, str]:
    """Applies every missing revision under an advisory lock; returns (revision before, revision now).

    Raises StoreUnavailable when PostgreSQL cannot be reached.
    """
    engine = create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(
            dsn, connect_timeout=5, options="-c search_path=mutirao,public -c timezone=UTC"
        ),
        poolclass=NullPool,
    )
    try:
        with engine.connect() as connection:
            return _upgrade(connection)
    except OperationalError as error:
        raise StoreUnavailable(
            f"PostgreSQL cannot be migrated: {str(error.orig).strip()}",
            hint="Check the `postgres` setting, and that the server is up.",
        ) from error
    finally:
        engine.dispose()


def _upgrade(connection: Connection) -> tuple[str | None, str]:
    connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": _LOCK})
    try:
        connection.execute(text("CREATE SCHEMA IF NOT EXISTS mutirao"))
        connection.commit()
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        config.attributes["connection"] = connection
        before = _revision(connection)
        connection.commit()
        command.upgrade(config, "head")
        connection.commit()
        head = ScriptDirectory.from_config(config).get_current_head()
        return before, head or ""
    finally:
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": _LOCK})


def _revision(connection: Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table_schema": "mutirao"})
    return context.get_current_revision()
