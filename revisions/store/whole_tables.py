"""Whole tables as JSON values, to move an installation to another database."""

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Boolean, Column, Connection, LargeBinary, Table, insert, literal, select, text, tuple_

from revisions.ids import utc_text
from revisions.store import run_tables, tables
from revisions.store.columns import Instant, insert_if_absent, metadata

MOVED: Mapping[str, Table] = {
    table.name: table
    for table in (
        tables.tasks,
        tables.trigger_revisions,
        tables.trigger_status,
        tables.trigger_states,
        run_tables.catchup_backlogs,
        run_tables.occurrences,
        run_tables.runs,
        run_tables.run_logs,
        run_tables.costs,
        run_tables.expectations,
        run_tables.missed_deadlines,
        run_tables.forgotten,
        tables.calendars,
        tables.holds,
        tables.installation,
    )
}
"""Tables that cannot be derived from others, in the order in which they are moved."""
REMADE = ("triggers", "trigger_changes")
"""Tables derived from those: current rows, and the feed, whose positions mean nothing elsewhere."""
LEFT = (
    *("rate_buckets", "project_turns", "catchup_loops", "sweeps", "quarantines", "replicas"),
    *("schema_support", "tokens", "people"),
)
"""Tables that stay: short-lived ones, that of the schema, and credentials, which belong to one database."""
PAGE = 2_000


def rows(connection: Connection, table: Table) -> Iterator[list[list[Any]]]:
    """Yield the rows of a table in key order, a page at a time."""
    key = tuple(table.primary_key.columns)
    place, encoders = tuple_(*key), [_encoder(column) for column in table.c]
    statement = select(table).order_by(*key).limit(PAGE)
    after = None
    while True:
        page = connection.execute(statement if after is None else statement.where(place > after)).all()
        if page:
            yield [[encode(value) for encode, value in zip(encoders, row, strict=True)] for row in page]
        if len(page) < PAGE:
            return
        after = tuple_(*(literal(page[-1]._mapping[column], column.type) for column in key))


def write(connection: Connection, table: Table, columns: Sequence[str], encoded: Sequence[Sequence[Any]]) -> bool:
    """Insert rows; return False when one exists already or occurs twice.

    Raises ValueError and TypeError for values that the column cannot hold.
    """
    decoders = [_decoder(table.c[name]) for name in columns]
    values = [
        {name: decode(value) for name, decode, value in zip(columns, decoders, row, strict=True)} for row in encoded
    ]
    if any(isinstance(column.type, LargeBinary) for column in table.c):
        connection.execute(insert(table), values)
        return True
    return insert_if_absent(connection, table, *values) == len(values)


def filled_tables(connection: Connection) -> list[str]:
    """Return the moved or derived tables that have rows; the installation's id always exists."""
    names = {*MOVED, *REMADE} - {tables.installation.name}
    candidates = (table for table in metadata.sorted_tables if table.name in names)
    return [
        table.name for table in candidates if connection.execute(select(literal(1)).select_from(table).limit(1)).all()
    ]


def lock_out_writers(connection: Connection) -> None:
    """Keep others from writing, by table locks on PostgreSQL and the write lock on SQLite."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE tasks, triggers, trigger_status, runs IN EXCLUSIVE MODE"))


def _encoder(column: Column[Any]) -> Callable[[Any], Any]:
    match column.type:
        case Instant():
            return lambda at: None if at is None else utc_text(at)
        case LargeBinary():
            return lambda data: None if data is None else base64.b64encode(data).decode()
        case Boolean():
            return lambda value: None if value is None else bool(value)
        case _:
            return lambda value: value


def _decoder(column: Column[Any]) -> Callable[[Any], Any]:
    match column.type:
        case Instant():
            return lambda at: None if at is None else datetime.fromisoformat(at).astimezone(UTC)
        case LargeBinary():
            return lambda data: None if data is None else base64.b64decode(data, validate=True)
        case _:
            return lambda value: value
