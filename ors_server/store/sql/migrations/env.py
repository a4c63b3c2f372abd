"""Alembic's environment: runs migrations on the caller's connection."""

from alembic import context

from ors_server.store.sql.record_tables import metadata


def run() -> None:
    """Run the migrations on the caller's connection, in the caller's transaction."""
    context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()


run()
