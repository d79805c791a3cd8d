"""Guards: database triggers that refuse changes of the history."""

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.triggers import holds
from reconcile.triggers.calendars import deploy_calendar
from revisions.errors import Unavailable
from revisions.spec.manifest import CalendarManifest
from revisions.store import schema
from revisions.store.database import Database
from tests.world import World

CALENDAR = CalendarManifest.read(
    {
        "apiVersion": "triggerctl/v1",
        "kind": "Calendar",
        "metadata": {"project": "acme", "name": "holidays"},
        "spec": {"owner": "ann", "dates": ["2026-12-25"]},
    }
)
_COLUMNS = (
    "trigger_id, revision, project, domain, task, name, action, actor, reason, at, active, tags, until, origin, "
    "idempotency_key, resolved, scopes, spec, previous_hash, hash"
)
REFUSED = {
    "update": "UPDATE trigger_revisions SET actor = 'mallory'",
    "update that changes nothing": "UPDATE trigger_revisions SET actor = actor",
    "delete": "DELETE FROM trigger_revisions",
    "truncate": "TRUNCATE trigger_revisions",
    "truncate with dependent tables": "TRUNCATE trigger_revisions CASCADE",
    "update under replication": "SET LOCAL session_replication_role = replica; DELETE FROM trigger_revisions",
    "replacing insert": f"INSERT OR REPLACE INTO trigger_revisions SELECT {_COLUMNS} FROM trigger_revisions",
    "upsert": f"""INSERT INTO trigger_revisions SELECT {_COLUMNS} FROM trigger_revisions WHERE true
        ON CONFLICT (trigger_id, revision) DO UPDATE SET actor = 'mallory'""",
}
ONLY_ON = {
    "truncate": "postgresql",
    "truncate with dependent tables": "postgresql",
    "update under replication": "postgresql",
    "replacing insert": "sqlite",
}


@pytest.mark.parametrize("table", schema.GUARDED)
def test_every_append_only_table_refuses_update_and_delete(world: World, table: str) -> None:
    """R-02, S-13: revisions, calendars and holds cannot be changed or deleted."""
    world.create()
    holds.freeze(world.database, world.observations, "acme", None, Caller("ann", "test"))
    deploy_calendar(world.database, world.observations, CALENDAR, Expected(absent=True), Caller("ann"))
    for statement in (f"UPDATE {table} SET actor = 'mallory'", f"DELETE FROM {table}"):
        with pytest.raises(DBAPIError, match=f"{table} is append-only"), world.database.write() as connection:
            connection.execute(text(statement))


@pytest.mark.parametrize("attempt", REFUSED)
def test_the_database_refuses_to_change_history(world: World, attempt: str) -> None:
    """R-02: the database refuses update, delete, truncate and replacing inserts, also from the owner of the table."""
    dialect = "sqlite" if world.database.is_sqlite else "postgresql"
    if ONLY_ON.get(attempt, dialect) != dialect:
        pytest.skip(f"{dialect} has no such statement")
    world.create()
    before = world.history()
    with pytest.raises(DBAPIError, match="append-only"), world.database.write() as connection:
        connection.execute(text(REFUSED[attempt]))
    assert world.history() == before


def test_a_replacing_insert_with_an_existing_idempotency_key_is_refused(world: World) -> None:
    """R-02: on SQLite the insert guard checks every unique key."""
    if not world.database.is_sqlite:
        pytest.skip("PostgreSQL has no replacing insert")
    world.create()
    with world.database.write() as connection:
        connection.execute(text(_COPY.format(revision=2, key="'k'")))
    with pytest.raises(DBAPIError, match="append-only"), world.database.write() as connection:
        connection.execute(text(_COPY.format(revision=3, key="'k'").replace("INSERT", "INSERT OR REPLACE")))


_COPY = """INSERT INTO trigger_revisions
    SELECT trigger_id, {revision}, project, domain, task, name, action, actor, reason,
    at, active, tags, until, origin, {key}, resolved, scopes, spec, previous_hash, hash FROM trigger_revisions
    WHERE revision = 1"""


def test_a_migration_fails_while_a_guard_is_missing(database: Database) -> None:
    """R-02: the migration is rolled back."""
    with database.write() as connection:
        schema.drop_guards(connection, "trigger_revisions")
    with database.read() as connection:
        assert len(schema.missing_guards(connection)) == (3 if database.is_sqlite else 2)
    with pytest.raises(Unavailable, match="unguarded"):
        schema.upgrade(database)


def test_a_disabled_guard_counts_as_missing(database: Database) -> None:
    """R-02: on PostgreSQL a guard must be ENABLE ALWAYS."""
    if database.is_sqlite:
        pytest.skip("SQLite cannot disable a trigger")
    with database.write() as connection:
        connection.execute(text("ALTER TABLE trigger_revisions ENABLE TRIGGER trigger_revisions_rows_immutable"))
        assert schema.missing_guards(connection) == ["trigger_revisions_rows_immutable"]


def test_a_role_that_does_not_own_the_tables_cannot_change_history(world: World) -> None:
    """R-02: such a role has all rights on rows, and cannot disable the guards."""
    if world.database.is_sqlite:
        pytest.skip("SQLite has no roles")
    world.create()
    with world.database.write() as connection:
        role = f"app_{world.database.url.database}"
        connection.execute(text(f"DROP ROLE IF EXISTS {role}"))
        connection.execute(text(f"CREATE ROLE {role}"))
        connection.execute(text(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}"))
        connection.execute(text(f"SET LOCAL ROLE {role}"))
        with pytest.raises(DBAPIError, match="append-only"), connection.begin_nested():
            connection.execute(text("DELETE FROM trigger_revisions"))
        with pytest.raises(DBAPIError, match="must be owner"), connection.begin_nested():
            connection.execute(text("ALTER TABLE trigger_revisions DISABLE TRIGGER ALL"))
        connection.execute(text("RESET ROLE"))
        connection.execute(text(f"DROP OWNED BY {role}"))
        connection.execute(text(f"DROP ROLE {role}"))
