"""Column types that differ between the databases, and statements over many rows.

The text of such a statement does not depend on the number of rows, so that each is compiled once.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any

from pydantic_core import to_json
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Dialect,
    Insert,
    MetaData,
    Select,
    String,
    Table,
    TableValuedAlias,
    Text,
    TypeDecorator,
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
from sqlalchemy.types import TypeEngine


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
        named = [{("where_key" if name == key else name): value for name, value in row.items()} for row in rows]
        connection.execute(_update_rows(table, key), named)


def in_list(connection: Connection, value: ColumnElement[str], ids: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition that a value is in a list, which is sent as one parameter."""
    if connection.dialect.name == "postgresql":
        return value == any_(bindparam("in_list", list(ids), type_=postgresql.ARRAY(Text)))
    return value.in_(select(func.json_each(json.dumps(list(ids))).table_valued("value").c.value))


@cache
def list_elements(on_postgresql: bool, name: str, columns: int = 1) -> Select[Any]:
    """Return a SELECT of the elements of a list that is sent as one JSON text in the parameter `name`.

    Elements are texts, or lists of `columns` texts. The statement can be a constant, because the list is no part of it.
    """
    if on_postgresql:
        given = func.json_array_elements(cast(bindparam(name, type_=Text), postgresql.JSON))
        elements = given.table_valued(column("value", postgresql.JSON), name=name).render_derived()
        if columns == 1:
            return select(elements.c.value.op("#>>")(literal_column("'{}'")))
        return select(*(elements.c.value[place].astext for place in range(columns)))
    value = func.json_each(bindparam(name, type_=Text)).table_valued("value", name=name).c.value
    if columns == 1:
        return select(value)
    return select(*(func.json_extract(value, literal_column(f"'$[{place}]'")) for place in range(columns)))


@lru_cache
def _insert_rows(table: Table) -> Insert:
    return sqlite.insert(table).on_conflict_do_nothing().execution_options(preserve_rowcount=True)


@lru_cache
def _update_rows(table: Table, key: str) -> Update:
    return update(table).where(table.c[key] == bindparam("where_key"))


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


_FIXED_WIDTH = "%Y-%m-%dT%H:%M:%S.%fZ"


def storable(text: str, longest: int) -> str:
    """Return a text that both databases store: no NUL, no lone surrogates, at most `longest` characters."""
    return text[:longest].replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        "ck": "%(table_name)s_%(constraint_name)s",
    }
)


class Instant(TypeDecorator[datetime]):
    """Aware UTC instant: `timestamptz` on PostgreSQL; on SQLite text of fixed width, which sorts by time."""

    impl = String(27)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(postgresql.TIMESTAMP(timezone=True))
        return dialect.type_descriptor(String(27))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None or dialect.name == "postgresql":
            return value
        return value.astimezone(UTC).strftime(_FIXED_WIDTH)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if isinstance(value, str):
            return datetime.strptime(value, _FIXED_WIDTH).replace(tzinfo=UTC)
        result: datetime = value.astimezone(UTC)
        return result


class Word(TypeDecorator[StrEnum]):
    """Text that is read as a member of an enum; raises ValueError for a text that the enum does not take."""

    impl = Text
    cache_ok = True

    def __init__(self, words: type[StrEnum]) -> None:
        super().__init__()
        self.words = words

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:
        return None if value is None else self.words(value)


class TransactionId(TypeDecorator[int]):
    """Transaction id: `xid8` on PostgreSQL, a number on SQLite."""

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(_Xid8())
        return dialect.type_descriptor(BigInteger())


class _Xid8(TypeEngine[int]):
    __visit_name__ = "xid8"

    def _compiler_dispatch(self, visitor: Any, **options: Any) -> str:
        return "xid8"


postgresql.base.ischema_names["xid8"] = _Xid8  # so that reflection knows the type
