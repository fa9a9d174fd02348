"""Runs migrations on the connection that `midwatch_server.store.upgrade` hands over, in its one transaction."""

from __future__ import annotations

from alembic import context
from midwatch_server.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)

with context.begin_transaction():
    context.run_migrations()
