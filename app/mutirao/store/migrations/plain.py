"""Revisions are plain SQL files; this runs one on Alembic's connection."""

from __future__ import annotations

from importlib import resources

from alembic import op


def run_file(name: str) -> None:
    """Runs `store/migrations/<name>` as it is, in the revision's transaction."""
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    # The driver itself: SQLAlchemy would look for parameters in the text.
    op.get_bind().connection.cursor().execute(text)
