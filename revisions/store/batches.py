"""Statements over many rows whose text does not depend on the number of rows, so that each is compiled once."""

import json
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from pydantic_core import to_json
from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    Select,
    Table,
    TableValuedAlias,
    Text,
    Update,
    any_,
    bindparam,
    cast,
    column,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite


def insert_if_absent(connection: Connection, table: Table, *rows: Mapping[str, Any]) -> int:
    """Insert the rows whose unique keys are free, and return their number: the insert is the claim (X-01)."""
    columns, on_postgresql = tuple(rows[0]), connection.dialect.name == "postgresql"
    if on_postgresql:
        return connection.execute(_insert_given(table, columns), _as_json(rows)).rowcount
    return connection.execute(_insert_rows(table), rows).rowcount


def update_many(connection: Connection, table: Table, key: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Update many rows, each found by its key; all rows give the same columns."""
    if not rows:
        return
    columns = tuple(rows[0])
    if connection.dialect.name == "postgresql":
        connection.execute(_update_given(table, key, columns), _as_json(rows))
    else:
        named = [{("of_key" if name == key else name): value for name, value in row.items()} for row in rows]
        connection.execute(_update_rows(table, key), named)


def in_list(connection: Connection, of: ColumnElement[str], ids: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition that a column's value is in a list, which is sent as one parameter."""
    if connection.dialect.name == "postgresql":
        return of == any_(bindparam("in_list", list(ids), type_=postgresql.ARRAY(Text)))
    return of.in_(select(func.json_each(json.dumps(list(ids))).table_valued("value").c.value))


@cache
def list_elements(on_postgresql: bool, name: str, columns: int = 1) -> Select[Any]:
    """Return a SELECT of the elements of a list that is sent as one JSON text in the parameter `name`.

    Elements are texts, or lists of `columns` texts. The statement can be a constant, because the list is no part of it.
    """
    if on_postgresql:
        given = func.json_array_elements(cast(bindparam(name, type_=Text), postgresql.JSON))
        found = given.table_valued(column("value", postgresql.JSON), name=name).render_derived()
        if columns == 1:
            return select(found.c.value.op("#>>")(literal_column("'{}'")))
        return select(*(found.c.value[place].astext for place in range(columns)))
    value = func.json_each(bindparam(name, type_=Text)).table_valued("value", name=name).c.value
    if columns == 1:
        return select(value)
    return select(*(func.json_extract(value, literal_column(f"'$[{place}]'")) for place in range(columns)))


@lru_cache
def _insert_rows(table: Table) -> Insert:
    return sqlite.insert(table).on_conflict_do_nothing().execution_options(preserve_rowcount=True)


@lru_cache
def _update_rows(table: Table, key: str) -> Update:
    return update(table).where(table.c[key] == bindparam("of_key"))


@lru_cache
def _insert_given(table: Table, columns: tuple[str, ...]) -> Insert:
    given = _given(table, columns)
    statement = postgresql.insert(table).from_select(columns, select(*(given.c[name] for name in columns)))
    return statement.on_conflict_do_nothing().execution_options(preserve_rowcount=True)


@lru_cache
def _update_given(table: Table, key: str, columns: tuple[str, ...]) -> Update:
    given = _given(table, columns)
    values = {name: given.c[name] for name in columns if name != key}
    return update(table).where(table.c[key] == given.c[key]).values(values)


def _given(table: Table, columns: tuple[str, ...]) -> TableValuedAlias:
    """Return rows that are sent as one JSON text, with the types of the table's columns."""
    rows = bindparam("given", type_=Text)
    typed = (column(name, table.c[name].type) for name in columns)
    return (
        func.json_to_recordset(cast(rows, postgresql.JSON))
        .table_valued(*typed, name="given")
        .render_derived(with_types=True)
    )


def _as_json(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {"given": to_json(rows).decode()}
