"""The first schema."""

from __future__ import annotations

from mutirao.store.migrations.plain import run_file

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Creates everything."""
    run_file("0001_schema.sql")
