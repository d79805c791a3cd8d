"""Migrations, and the guards they end with."""

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from revisions.store import guards, schema
from revisions.store.database import Database
from revisions.store.tables import SCHEMA, metadata


def test_migrating_down_and_up_again_gives_the_tables_of_the_code(database: Database) -> None:
    """R-19: migrations run up and down on both databases and end where the code's tables are."""
    schema.downgrade(database, "base")
    assert database.schema() is None
    schema.upgrade(database)
    assert database.schema() == SCHEMA == schema.versions()[-1]
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        assert guards.missing(connection) == []
