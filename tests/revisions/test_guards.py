"""History that the database itself keeps from being changed."""

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
    "truncate with all that hangs on it": "TRUNCATE trigger_revisions CASCADE",
    "update under replication": "SET LOCAL session_replication_role = replica; DELETE FROM trigger_revisions",
    "replacing insert": f"INSERT OR REPLACE INTO trigger_revisions SELECT {_COLUMNS} FROM trigger_revisions",
    "upsert": f"""INSERT INTO trigger_revisions SELECT {_COLUMNS} FROM trigger_revisions WHERE true
        ON CONFLICT (trigger_id, revision) DO UPDATE SET actor = 'mallory'""",
}
ONLY_ON = {
    "truncate": "postgresql",
    "truncate with all that hangs on it": "postgresql",
    "update under replication": "postgresql",
    "replacing insert": "sqlite",
}


@pytest.mark.parametrize("table", schema.GUARDED)
def test_every_append_only_table_is_guarded(world: World, table: str) -> None:
    """R-02, S-13: calendars and holds can no more be changed or removed than revisions can."""
    world.create()
    holds.freeze(world.database, world.observations, "acme", None, Caller("ann", "test"))
    deploy_calendar(world.database, world.observations, CALENDAR, Expected(absent=True), Caller("ann"))
    for statement in (f"UPDATE {table} SET actor = 'mallory'", f"DELETE FROM {table}"):
        with pytest.raises(DBAPIError, match=f"{table} is append-only"), world.database.write() as connection:
            connection.execute(text(statement))


@pytest.mark.parametrize("attempt", REFUSED)
def test_the_database_refuses_to_change_history(world: World, attempt: str) -> None:
    """R-02: update, delete, truncate and replacing inserts are refused by the database, for its owner too."""
    dialect = "sqlite" if world.database.is_sqlite else "postgresql"
    if ONLY_ON.get(attempt, dialect) != dialect:
        pytest.skip(f"{dialect} has no such statement")
    world.create()
    before = world.history()
    with pytest.raises(DBAPIError, match="append-only"), world.database.write() as connection:
        connection.execute(text(REFUSED[attempt]))
    assert world.history() == before


def test_a_replacing_insert_by_the_other_key_is_refused(world: World) -> None:
    """R-02: on SQLite the insert guard names every unique key, the idempotency key too."""
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


def test_a_missing_guard_is_noticed_by_every_migration(database: Database) -> None:
    """R-02: a migration that would end without the guards is rolled back."""
    with database.write() as connection:
        schema.drop_guards(connection, "trigger_revisions")
    with database.read() as connection:
        assert len(schema.missing_guards(connection)) == (3 if database.is_sqlite else 2)
    with pytest.raises(Unavailable, match="unguarded"):
        schema.upgrade(database)


def test_a_disabled_guard_counts_as_missing(database: Database) -> None:
    """R-02: on PostgreSQL a guard must stand as ENABLE ALWAYS."""
    if database.is_sqlite:
        pytest.skip("SQLite cannot disable a trigger")
    with database.write() as connection:
        connection.execute(text("ALTER TABLE trigger_revisions ENABLE TRIGGER trigger_revisions_rows_immutable"))
        assert schema.missing_guards(connection) == ["trigger_revisions_rows_immutable"]


def test_the_application_need_not_own_the_table(world: World) -> None:
    """R-02: a role with nothing but rights on the rows can work, and cannot change history."""
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
