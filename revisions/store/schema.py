"""The schema: migrations (Alembic), the database triggers that make history immutable, the server and its rights.

UPDATE, DELETE, TRUNCATE and replacing inserts of revisions fail (R-02, R-19).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, text

from revisions.errors import Invalid, Unavailable
from revisions.store.database import Database
from revisions.store.sessions import POOLED, SESSION_TIMEOUTS
from revisions.store.tables import schema_support
from revisions.store.whole_tables import LEFT, MOVED, REMADE

GUARDED: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "trigger_revisions": (("trigger_id", "revision"), ("trigger_id", "idempotency_key")),
    "calendars": (("project", "name", "revision"),),
    "holds": (("hold_id", "revision"),),
}
"""Append-only tables, each with its unique keys."""

_KINDS: Final = {
    "postgresql": ("rows_immutable", "truncate_refused"),
    "sqlite": ("update_refused", "delete_refused", "replace_refused"),
}


def create_guards(connection: Connection, table: str) -> None:
    """Create a table's guards; again when a migration rebuilt the table."""
    make = _postgresql if connection.dialect.name == "postgresql" else _sqlite
    for statement in make(table):
        connection.execute(text(statement))


def drop_guards(connection: Connection, table: str) -> None:
    """Drop a table's guards; only the removal of the table itself may do that."""
    on_postgresql = connection.dialect.name == "postgresql"
    for name in _names(connection, table):
        connection.execute(text(f"DROP TRIGGER {name}" + (f" ON {table}" if on_postgresql else "")))


def missing_guards(connection: Connection) -> list[str]:
    """Return the names of guards that should exist and do not. Tables that do not exist need none."""
    return sorted(
        name
        for table in GUARDED
        if connection.dialect.has_table(connection, table)
        for name in _names(connection, table) - _standing(connection, table)
    )


def _names(connection: Connection, table: str) -> set[str]:
    return {f"{table}_{kind}" for kind in _KINDS[connection.dialect.name]}


def _standing(connection: Connection, table: str) -> set[str]:
    if connection.dialect.name == "postgresql":
        found = f"SELECT tgname FROM pg_trigger WHERE tgrelid = '{table}'::regclass AND tgenabled = 'A'"
    else:
        found = f"SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = '{table}'"
    return set(connection.execute(text(found)).scalars())


def _postgresql(table: str) -> Iterator[str]:
    """Yield the statements for PostgreSQL. ALWAYS keeps the guards under session_replication_role = replica."""
    yield """CREATE OR REPLACE FUNCTION refuse_change_of_history() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation'; END $$"""
    rows, truncate = (f"{table}_{kind}" for kind in _KINDS["postgresql"])
    yield f"""CREATE TRIGGER {rows} BEFORE UPDATE OR DELETE ON {table}
        FOR EACH ROW EXECUTE FUNCTION refuse_change_of_history()"""
    yield f"""CREATE TRIGGER {truncate} BEFORE TRUNCATE ON {table}
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_history()"""
    for name in (rows, truncate):
        yield f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}"


def _sqlite(table: str) -> Iterator[str]:
    refusal = f"SELECT RAISE(ABORT, '{table} is append-only')"
    update, delete, replace = (f"{table}_{kind}" for kind in _KINDS["sqlite"])
    yield f"CREATE TRIGGER {update} BEFORE UPDATE ON {table} BEGIN {refusal}; END"
    yield f"CREATE TRIGGER {delete} BEFORE DELETE ON {table} BEGIN {refusal}; END"
    same = " OR ".join(
        f"EXISTS (SELECT 1 FROM {table} WHERE " + " AND ".join(f"{column} = NEW.{column}" for column in key) + ")"
        for key in GUARDED[table]  # one look into each index; both in one would read the trigger's whole history
    )  # INSERT OR REPLACE deletes the old row without asking the delete guard
    yield f"CREATE TRIGGER {replace} BEFORE INSERT ON {table} WHEN {same} BEGIN {refusal}; END"


_ONE_AT_A_TIME = 7_261_001
"""Key of the advisory lock that migrations hold, so that replicas that start together do not migrate at once."""

_AS_LONG_AS_IT_TAKES = """
SELECT set_config(name, '0', true) FROM pg_settings
WHERE name IN ('lock_timeout', 'statement_timeout', 'transaction_timeout')
"""
"""Lifts the timeouts before each migration and statement: rewriting a large table takes minutes."""


VERSIONS = "alembic_version"
"""Alembic's table with the schema version."""


@dataclass(frozen=True, slots=True)
class DatabaseServer:
    """The server. `major` is PostgreSQL's and None on SQLite; `is_pooled`: a pooler stands before it."""

    name: str
    version: str
    major: int | None
    is_pooled: bool = False


@dataclass(frozen=True, slots=True)
class DatabaseRights:
    """The database's role and the rights it lacks, each as `RIGHT on table`."""

    role: str
    is_superuser: bool
    lacking: tuple[str, ...]

    @property
    def is_blind(self) -> bool:
        """Return True when a table that must be read may not be."""
        return any(right.startswith("SELECT ") for right in self.lacking)


def upgrade(database: Database, version: str = "head") -> None:
    """Migrate to a version. Raises Invalid for an unknown version, Unavailable when a guard would be missing."""
    _migrate(database, version, command.upgrade)


def downgrade(database: Database, version: str) -> None:
    """Migrate back to a version (`base` removes everything)."""
    _migrate(database, version, command.downgrade)


def versions() -> list[str]:
    """Return all schema versions that this release knows, oldest first."""
    return [script.revision for script in reversed(list(ScriptDirectory.from_config(_config()).walk_revisions()))]


def rights(connection: Connection) -> DatabaseRights | None:
    """Return the rights of the database's role; None on SQLite, where they are those of the file."""
    if connection.dialect.name != "postgresql":
        return None
    role = connection.execute(text("SELECT rolname, rolsuper FROM pg_roles WHERE rolname = current_user")).one()
    tables = sorted({*MOVED, *REMADE, *LEFT, VERSIONS})
    needed = [(table, right) for table in tables for right in _needed(table)]
    statement = text(
        "SELECT wanted, of_table FROM unnest(CAST(:tables AS text[]), CAST(:rights AS text[])) AS o(of_table, wanted)"
        " WHERE CASE WHEN to_regclass(of_table) IS NOT NULL THEN NOT has_table_privilege(of_table, wanted) END"
    )
    parameters = {"tables": [table for table, _ in needed], "rights": [right for _, right in needed]}
    lacking = connection.execute(statement, parameters)
    return DatabaseRights(role.rolname, role.rolsuper, tuple(f"{right} on {table}" for right, table in lacking))


def _needed(table: str) -> tuple[str, ...]:
    if table in (schema_support.name, VERSIONS):
        return ("SELECT",)
    return ("SELECT", "INSERT") if table in GUARDED else ("SELECT", "INSERT", "UPDATE", "DELETE")


def describe(connection: Connection) -> DatabaseServer:
    """Return the server's name and version."""
    if connection.dialect.name != "postgresql":
        return DatabaseServer("SQLite", str(connection.execute(text("SELECT sqlite_version()")).scalar_one()), None)
    statement = "SELECT current_setting('server_version'), current_setting('server_version_num')::int / 10000"
    version, major = connection.execute(text(statement)).one()
    return DatabaseServer("PostgreSQL", str(version).split(" ")[0], int(major), connection.info[POOLED])


def _migrate(database: Database, version: str, run: object) -> None:
    config = _config()
    try:
        with database.write() as connection:
            if not database.is_sqlite:
                connection.execute(text(_AS_LONG_AS_IT_TAKES))
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_ONE_AT_A_TIME})"))
                _not_before_others(connection)
            config.attributes["connection"] = connection
            assert callable(run)
            run(config, version)
            _check(connection)
    except CommandError as error:
        raise Invalid.at("version", str(error), f"one of {', '.join(versions())}") from error


def _not_before_others(connection: Connection) -> None:
    """Limit the wait for a table's lock, because all other users of the table queue up behind it."""
    seconds = SESSION_TIMEOUTS["lock_timeout"]
    connection.execute(text("SELECT set_config('lock_timeout', :seconds, true)"), {"seconds": seconds})


def _check(connection: Connection) -> None:
    if missing := missing_guards(connection):
        raise Unavailable(f"the migration would leave history unguarded: {', '.join(missing)} missing")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config
