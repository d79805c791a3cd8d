"""Migrations of the schema, and the guards that must exist after each."""

import re

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Column, Connection, MetaData, Text, event, text

from reconcile.triggers.history.rebuild import compare_tables
from revisions.errors import Invalid, Unavailable
from revisions.history import chain
from revisions.store import installations, schema
from revisions.store.columns import metadata
from revisions.store.database import Database
from revisions.store.tables import SCHEMA
from tests.world import World


def test_migrations_down_and_up_again_create_the_tables_of_the_code(database: Database) -> None:
    """R-19: migrations run in both directions on both databases, and their tables equal those in the code."""
    schema.downgrade(database, "base")
    assert database.schema() is None
    schema.upgrade(database)
    assert database.schema() == SCHEMA == schema.versions()[-1]
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        assert schema.missing_guards(connection) == []


def _rows_by_table(database: Database, like: MetaData) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows of the tables and columns that exist in the earlier schema."""
    tables = [table for table in like.sorted_tables if table.name not in ("schema_support", "alembic_version")]
    with database.read() as connection:
        return {
            table.name: sorted((tuple(row) for row in connection.execute(table.select())), key=repr) for table in tables
        }


@pytest.mark.parametrize("previous", schema.versions()[:-1])
def test_data_of_an_earlier_schema_survives_up_and_down(world: World, previous: str) -> None:
    """R-19: an upgrade and a downgrade lose no data; hash chains are valid, and current rows match the history."""
    world.create("a", tags=["x"], catchup={"policy": "all"})
    world.create("b", input={"ü": [1.5, None]})
    world.create("done", schedule={"at": "2026-03-02T08:30:00Z"})
    world.create("by-hand")
    world.create("bound", serialize_key="k", concurrency={"limit": 2})
    world.deactivate("by-hand", 1, "completed")
    world.advance(minutes=90)
    world.resync()
    world.deactivate("a", 1, "pause")
    world.delete("b", 1)
    world.update("done", 2, schedule={"at": "2026-03-02T08:30:00Z"}, description="changed")
    schema.downgrade(world.database, previous)
    earlier = MetaData()
    earlier.reflect(world.database.engine)
    before = _rows_by_table(world.database, earlier)
    schema.upgrade(world.database)
    world.database.check_schema()
    assert _rows_by_table(world.database, earlier) == before
    assert compare_tables(world.database).differences == []
    for name in "ab":
        for revision in world.history(name):
            assert chain.link(revision) == revision.hash
    schema.downgrade(world.database, previous)
    assert _rows_by_table(world.database, earlier) == before
    with world.database.read() as connection:
        assert schema.missing_guards(connection) == []


def test_each_database_has_its_own_installation_id(database: Database) -> None:
    """X-10: the id is valid in a label; only creating its table again changes it."""

    def current() -> str:
        with database.read() as connection:
            return installations.current(connection)

    first = current()
    assert re.fullmatch("[0-9A-Z]{26}", first)
    schema.upgrade(database)
    assert current() == first
    schema.downgrade(database, "0005")
    schema.upgrade(database)
    assert current() != first


def test_a_release_runs_on_a_newer_schema_that_supports_it(database: Database) -> None:
    """R-19: during a rolling upgrade; a newer schema that does not support the release is refused."""
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9998'"))
    database.check_schema()
    with database.write() as connection:
        connection.execute(text("UPDATE schema_support SET readable_since = '9998'"))
    with pytest.raises(Unavailable, match="too new for this release"):
        database.check_schema()


def test_a_release_refuses_an_older_schema(database: Database) -> None:
    """R-19: the error names the command that upgrades it."""
    schema.downgrade(database, schema.versions()[-2])
    with pytest.raises(Unavailable, match="db upgrade"):
        database.check_schema()


def test_a_migration_in_batch_mode_must_create_the_guards_again(world: World) -> None:
    """R-02: SQLite's batch mode rebuilds the table without its guards; the next migration fails until they exist."""
    world.create()
    with world.database.write() as connection:
        operations = Operations(MigrationContext.configure(connection))
        with operations.batch_alter_table("trigger_revisions", recreate="always") as batch:
            batch.add_column(Column("note", Text))
    with world.database.read() as connection:
        assert schema.missing_guards(connection)
    with pytest.raises(Unavailable, match="unguarded"):
        schema.upgrade(world.database)
    with world.database.write() as connection:
        schema.create_guards(connection, "trigger_revisions")
    schema.upgrade(world.database)
    assert [revision.revision for revision in world.history()] == [1]


def test_an_unknown_version_is_refused(database: Database) -> None:
    """R-19: the hint lists the versions that exist."""
    with pytest.raises(Invalid) as refused:
        schema.upgrade(database, "7777")
    assert refused.value.errors[0].hint == f"one of {', '.join(schema.versions())}"


@pytest.mark.usefixtures("as_shipped")
def test_a_migration_runs_without_statement_timeouts(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-19, O-08: neither its statements nor the wait for another migration time out; waiting for a table lock does."""
    if database.is_sqlite:
        pytest.skip("SQLite has no such timeouts")
    settings_seen, names = [], ("lock_timeout", "statement_timeout", "transaction_timeout")

    def settings(connection: Connection) -> list[str | None]:
        return [connection.exec_driver_sql(f"SELECT current_setting('{name}', true)").scalar() for name in names]

    def when_waiting(connection: Connection, _: object, statement: str, *__: object) -> None:
        if "pg_advisory_xact_lock" in statement:
            settings_seen.append(settings(connection))

    event.listen(database.engine, "after_cursor_execute", when_waiting)
    monkeypatch.setattr(
        command, "upgrade", lambda config, _: settings_seen.append(settings(config.attributes["connection"]))
    )
    schema.upgrade(database)
    waiting, working = settings_seen
    assert (waiting[:2], working[:2]) == (["0", "0"], ["5s", "0"])
    assert {waiting[2], working[2]} <= {"0", None}  # exists since PostgreSQL 17
