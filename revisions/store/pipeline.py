"""Statements that do not wait for each other's answers, where the driver can (PostgreSQL's pipeline mode).

A deploy is three round trips with it and eleven without; on SQLite, where nothing travels, the same calls simply run.
"""

from collections import namedtuple
from collections.abc import Mapping
from contextlib import ExitStack
from functools import lru_cache
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import Connection, Delete, Insert, Select, Update
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

Question = tuple[Select[Any], Mapping[str, Any]]
"""A statement made once (it is compiled once) and its parameters, by name."""
Write = tuple[Insert | Update | Delete, Mapping[str, Any]]


def ask(connection: Connection, *questions: Question) -> list[list[Any]]:
    """The rows of each question, asked one after another on the server but sent together.

    Locks are therefore taken in the order of the questions, and each sees what those before it waited for.
    """
    if connection.dialect.name != "postgresql":
        return [list(connection.execute(statement, dict(given))) for statement, given in questions]
    driver = _driver(connection)
    with driver.pipeline():
        asked = [(driver.cursor(), _compiled(statement, tuple(given)), given) for statement, given in questions]
        for cursor, compiled, given in asked:
            cursor.execute(compiled.text, {**compiled.fixed, **given})
    return [compiled.rows(cursor) for cursor, compiled, _ in asked]


def write(connection: Connection, *writes: Write, is_last: bool = False) -> None:
    """Writes whose answers nobody looks at, one after another on the server but sent together.

    With `is_last` nothing follows in the transaction, and its commit is sent with them: what fails is then raised when
    the transaction ends.
    """
    if connection.dialect.name != "postgresql":
        for statement, given in writes:
            connection.execute(statement, dict(given))
        return
    driver = _driver(connection)
    with ExitStack() as own:
        left_after_the_commit: ExitStack = connection.info["ahead"]
        (left_after_the_commit if is_last else own).enter_context(driver.pipeline())
        cursor = own.enter_context(driver.cursor())
        for statement, given in writes:
            compiled = _compiled(statement, tuple(given))
            cursor.execute(compiled.text, {**compiled.fixed, **given})


class _Compiled(NamedTuple):
    """What a statement is to the driver, and what makes its rows."""

    text: str
    fixed: dict[str, Any]
    row: Any
    processors: list[Any]

    def rows(self, cursor: psycopg.Cursor[Any]) -> list[Any]:
        return [
            self.row._make(
                process(value) if process else value for process, value in zip(self.processors, found, strict=True)
            )
            for found in cursor.fetchall()
        ]


_DIALECT: Any = PGDialect_psycopg()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it untyped


@lru_cache
def _compiled(statement: Select[Any] | Insert | Update | Delete, names: tuple[str, ...]) -> _Compiled:
    columns = list(statement.selected_columns) if isinstance(statement, Select) else []
    compiled: Any = statement.compile(dialect=_DIALECT, column_keys=None if columns else list(names))
    return _Compiled(
        text=str(compiled),
        fixed={name: value for name, value in compiled.params.items() if name not in names},
        row=namedtuple("Row", [str(column.key) for column in columns]),  # its fields are known only here
        processors=[column.type.dialect_impl(_DIALECT).result_processor(_DIALECT, None) for column in columns],
    )


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver
