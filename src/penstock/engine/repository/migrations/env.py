"""Alembic's entry point: migrates on the connection it is handed, in that connection's transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], target_metadata=None)
with context.begin_transaction():
    context.run_migrations()
