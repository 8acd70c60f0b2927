"""Alembic's entry: `memline.ledger.migrate` hands it a connection."""

from alembic import context

from memline.ledger.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
