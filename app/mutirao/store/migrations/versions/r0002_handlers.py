"""Output, progress, effects done once, and contracts that jobs are bound to."""

from __future__ import annotations

from mutirao.store.migrations.plain import run_file

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Adds columns and a table; nothing of before is rewritten."""
    run_file("0002_handlers.sql")
