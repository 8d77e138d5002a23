"""Alembic's entry: runs the revisions on the connection that migrate.py hands over."""

from __future__ import annotations

from alembic import context

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=None,
    version_table_schema="mutirao",
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
