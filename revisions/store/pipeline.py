"""Statements that do not wait for each other's answers, where anything travels (PostgreSQL).

A deploy is two turns on the wire with it and twelve without; on SQLite, where nothing travels, the same calls simply
run.
"""

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import Any, NamedTuple

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import ColumnElement, Connection, Delete, Insert, Select, Update
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.sql.dml import ReturningUpdate

from revisions.store import sessions
from revisions.store.wire import Statement, turn

Question = tuple[Select[Any] | ReturningUpdate[Any], Mapping[str, Any]]
"""A statement made once (it is compiled once and prepared once a connection) and its parameters, by name."""
Write = tuple[Insert | Update | Delete, Mapping[str, Any]]

POOLED = "pooled"
"""Where a connection's `info` says whether a pooler is between it and the server."""

_BEGIN, _COMMIT = (Statement(text.lower(), text, tuple) for text in (b"BEGIN", b"COMMIT"))


def ask(connection: Connection, *questions: Question) -> list[list[Any]]:
    """The rows of each question, asked one after another on the server but sent together.

    Locks are therefore taken in the order of the questions, and each sees what those before it waited for.
    """
    if connection.dialect.name != "postgresql":
        return [list(connection.execute(statement, dict(given))) for statement, given in questions]
    return _send(connection, questions)


def write(connection: Connection, *writes: Write, is_last: bool = False) -> None:
    """Writes whose answers nobody looks at, one after another on the server but sent together.

    With `is_last` nothing follows in the transaction, and they are sent with its commit: what fails is then raised when
    the transaction ends.
    """
    if connection.dialect.name != "postgresql":
        for statement, given in writes:
            connection.execute(statement, dict(given))
    elif is_last:
        connection.info["last"] = writes
    else:
        _send(connection, writes)


def begin(connection: Connection) -> None:
    """Begins a transaction that has timeouts of its own: behind a pooler the session's are anybody's (O-08, O-09)."""
    driver = _driver(connection)
    limits = (
        Statement(name.encode(), f"SET LOCAL {name} = '{span}'".encode(), tuple)
        for name, span in sessions.timeouts(driver.info.server_version).items()
    )
    turn(driver, None, (_BEGIN, ()), *((limit, ()) for limit in limits))


@contextmanager
def ending(connection: Connection) -> Iterator[None]:
    """Around a transaction's statements: what was kept for its end is sent then, and the commit with it."""
    connection.info["last"] = ()
    yield
    if writes := connection.info["last"]:
        _send(connection, writes, (_COMMIT, ()))


def _send(
    connection: Connection, statements: Sequence[Question | Write], *then: tuple[Statement, tuple[()]]
) -> list[list[Any]]:
    driver = _driver(connection)
    sent = [_compiled(statement, tuple(given)).bound(given) for statement, given in statements]
    prepared = None if connection.info[POOLED] else connection.info.setdefault("prepared", set())
    if driver.pgconn.transaction_status == TransactionStatus.IDLE:
        return turn(driver, prepared, (_BEGIN, ()), *sent, *then)[1:]
    return turn(driver, prepared, *sent, *then)


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver


class _Compiled(NamedTuple):
    """A statement as the server takes it, and its parameters in their order: their names, or what they always are."""

    statement: Statement
    order: tuple[str, ...]
    fixed: dict[str, Any]

    def bound(self, given: Mapping[str, Any]) -> tuple[Statement, list[Any]]:
        values = {**self.fixed, **given}
        return self.statement, [values[name] for name in self.order]


_DIALECT: Any = PGDialect_psycopg(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it so
_numbers = count()
_FLOAT8 = 701
"""What columns of numbers are on the server; columns of other types do not ask."""


@cache
def _compiled(statement: Select[Any] | Insert | Update | Delete, names: tuple[str, ...]) -> _Compiled:
    columns = list(statement.exported_columns)
    written = None if isinstance(statement, Select) else list(names)
    compiled: Any = statement.compile(dialect=_DIALECT, column_keys=written)
    return _Compiled(
        Statement(b"triggerctl_%d" % next(_numbers), str(compiled).encode(), _row(columns)),
        order=tuple(compiled.positiontup),
        fixed={name: value for name, value in compiled.params.items() if name not in names},
    )


def _row(columns: Sequence[ColumnElement[Any]]) -> Callable[[Sequence[Any]], Any]:
    """What makes a row of what the driver read."""
    if not columns:
        return tuple
    names = [str(column.key) for column in columns]
    made: Any = namedtuple("Row", names)  # type: ignore[misc]  # its fields are known only here
    processors = [column.type.dialect_impl(_DIALECT).result_processor(_DIALECT, _FLOAT8) for column in columns]
    processed = [(place, process) for place, process in enumerate(processors) if process]

    def row(values: Sequence[Any]) -> Any:
        found = list(values)
        for place, process in processed:
            found[place] = process(found[place])
        return made._make(found)

    return row
