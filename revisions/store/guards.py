"""What makes history immutable in the database itself: UPDATE, DELETE, TRUNCATE and replacing inserts fail (R-02)."""

from collections.abc import Iterator

from sqlalchemy import Connection, text

TABLE = "trigger_revisions"
_KEYS = (("trigger_id", "revision"), ("trigger_id", "idempotency_key"))
_POSTGRESQL = ("trigger_revisions_rows_immutable", "trigger_revisions_truncate_refused")
_SQLITE = ("trigger_revisions_update_refused", "trigger_revisions_delete_refused", "trigger_revisions_replace_refused")


def create(connection: Connection) -> None:
    """Puts the guards up; anew where a migration rebuilt the table."""
    for statement in _statements(connection.dialect.name):
        connection.execute(text(statement))


def drop(connection: Connection) -> None:
    """Takes the guards down, which only the removal of the table itself may do."""
    if connection.dialect.name == "postgresql":
        for name in _POSTGRESQL:
            connection.execute(text(f"DROP TRIGGER {name} ON {TABLE}"))
        connection.execute(text("DROP FUNCTION refuse_change_of_history()"))
    else:
        for name in _SQLITE:
            connection.execute(text(f"DROP TRIGGER {name}"))


def missing(connection: Connection) -> list[str]:
    """The guards that should stand and do not; empty when history is safe."""
    if connection.dialect.name == "postgresql":
        standing = connection.execute(
            text(f"SELECT tgname FROM pg_trigger WHERE tgrelid = '{TABLE}'::regclass AND tgenabled = 'A'")
        ).scalars()
        return sorted(set(_POSTGRESQL) - set(standing))
    standing = connection.execute(
        text(f"SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = '{TABLE}'")
    ).scalars()
    return sorted(set(_SQLITE) - set(standing))


def _statements(dialect: str) -> Iterator[str]:
    refusal = f"{TABLE} is append-only"
    if dialect == "postgresql":
        yield f"""CREATE OR REPLACE FUNCTION refuse_change_of_history() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION '{refusal}' USING ERRCODE = 'restrict_violation'; END $$"""
        rows, truncate = _POSTGRESQL
        yield f"""CREATE TRIGGER {rows} BEFORE UPDATE OR DELETE ON {TABLE}
            FOR EACH ROW EXECUTE FUNCTION refuse_change_of_history()"""
        yield f"""CREATE TRIGGER {truncate} BEFORE TRUNCATE ON {TABLE}
            FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_history()"""
        for name in _POSTGRESQL:  # ALWAYS: they stand under session_replication_role = replica too
            yield f"ALTER TABLE {TABLE} ENABLE ALWAYS TRIGGER {name}"
    else:
        update, delete, replace = _SQLITE
        yield f"CREATE TRIGGER {update} BEFORE UPDATE ON {TABLE} BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
        yield f"CREATE TRIGGER {delete} BEFORE DELETE ON {TABLE} BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
        same = " OR ".join(
            f"EXISTS (SELECT 1 FROM {TABLE} WHERE " + " AND ".join(f"{column} = NEW.{column}" for column in key) + ")"
            for key in _KEYS  # one look into each index; both in one would read the trigger's whole history
        )  # INSERT OR REPLACE deletes the old row without asking the delete guard
        yield f"""CREATE TRIGGER {replace} BEFORE INSERT ON {TABLE} WHEN {same}
            BEGIN SELECT RAISE(ABORT, '{refusal}'); END"""
