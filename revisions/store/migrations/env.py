"""Run by Alembic; the connection and its transaction come from `revisions.store.schema`."""

from alembic import context

from revisions.store import run_tables, tables  # noqa: F401  # their import fills the metadata
from revisions.store.columns import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transaction_per_migration=False,
)
context.run_migrations()
