"""Alembic's entry point, which migrates on the given connection, in that connection's transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], target_metadata=None)
with context.begin_transaction():
    context.run_migrations()
