"""Alembic's way in: the connection comes from Database.upgrade, or from a test that compares tables."""

from alembic import context

from truthful.store.tables import Table

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Table.metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
