"""Statements that do not wait for each other's answers, where the driver can (PostgreSQL's pipeline mode).

A deploy is three round trips with it and eleven without; on SQLite, where nothing travels, the same calls simply run.
"""

from collections import namedtuple
from collections.abc import Mapping
from contextlib import ExitStack
from functools import lru_cache
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import Connection, Select
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

Question = tuple[Select[Any], Mapping[str, Any]]
"""A statement made once (it is compiled once) and its parameters, by name."""


def ask(connection: Connection, *questions: Question) -> list[list[Any]]:
    """The rows of each question, asked one after another on the server but sent together.

    Locks are therefore taken in the order of the questions, and each sees what those before it waited for.
    """
    if connection.dialect.name != "postgresql":
        return [list(connection.execute(statement, dict(given))) for statement, given in questions]
    driver = _driver(connection)
    with driver.pipeline():
        cursors = [driver.cursor() for _ in questions]
        for cursor, (statement, given) in zip(cursors, questions, strict=True):
            compiled = _compiled(statement)
            cursor.execute(compiled.text, {**compiled.fixed, **given})
    return [_compiled(s).rows(cursor) for cursor, (s, _) in zip(cursors, questions, strict=True)]


def send_ahead(connection: Connection) -> None:
    """From here on no statement of this transaction is waited for, its commit included.

    For writes whose answers nobody looks at; that one of them failed is raised when the transaction ends.
    """
    if connection.dialect.name == "postgresql":
        ahead: ExitStack = connection.info["ahead"]
        ahead.enter_context(_driver(connection).pipeline())


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
def _compiled(statement: Select[Any]) -> _Compiled:
    compiled: Any = statement.compile(dialect=_DIALECT)
    columns = list(statement.selected_columns)
    return _Compiled(
        text=str(compiled),
        fixed={name: value for name, value in compiled.params.items() if value is not None},
        row=namedtuple("Row", [str(column.key) for column in columns]),  # its fields are known only here
        processors=[column.type.dialect_impl(_DIALECT).result_processor(_DIALECT, None) for column in columns],
    )


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver
