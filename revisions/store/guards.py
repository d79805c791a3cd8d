"""Database triggers that make history immutable: UPDATE, DELETE, TRUNCATE and replacing inserts fail (R-02)."""

from collections.abc import Iterator, Mapping
from typing import Final

from sqlalchemy import Connection, text

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


def create(connection: Connection, table: str) -> None:
    """Create a table's guards; again when a migration rebuilt the table."""
    make = _postgresql if connection.dialect.name == "postgresql" else _sqlite
    for statement in make(table):
        connection.execute(text(statement))


def drop(connection: Connection, table: str) -> None:
    """Drop a table's guards; only the removal of the table itself may do that."""
    on_postgresql = connection.dialect.name == "postgresql"
    for name in _names(connection, table):
        connection.execute(text(f"DROP TRIGGER {name}" + (f" ON {table}" if on_postgresql else "")))


def missing(connection: Connection) -> list[str]:
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
