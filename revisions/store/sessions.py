"""Sessions with PostgreSQL: connecting, timeouts, poolers (O-08, O-09), and several statements in one round trip.

A deploy takes two round trips instead of twelve: its locks and the time, then its writes and the commit. On SQLite,
which has no network between, the same functions execute the statements one by one.

libpq is called directly instead of through psycopg's `Connection.pipeline()`, whose cursors adapt, send and wait
statement by statement. `python -m benchmarks pipelines` compares both: this module completes 2.3 to 2.9 times as many
deploy-like transactions per second on one connection, and 2.0 to 2.1 times as many on eight. `Connection.pipeline()` is
no faster than statements sent one by one to a server on the same machine. Where every commit waits for a disk, one
connection gains nothing and eight gain 1.3 to 1.6 times.
"""

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import count
from typing import Any, NamedTuple

import psycopg
from psycopg import abc, generators
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from sqlalchemy import ColumnElement, Connection, Delete, Insert, Select, Update
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.sql.dml import ReturningUpdate

SESSION_TIMEOUTS = {
    "idle_in_transaction_session_timeout": "10s",
    "lock_timeout": "5s",
    "statement_timeout": "30s",
}
"""Below the lease, so that a stalled participant cannot delay others (O-08)."""
TRANSACTION_TIMEOUT = "40s"
"""Ends a client that stalls within a pipeline: the server does not count it as idle. PostgreSQL 17 and later."""
TCP_USER_TIMEOUT_MILLISECONDS = 10_000
CONNECT_SECONDS = 5
_REFUSED = "unsupported startup parameter"
"""PgBouncer's answer to timeouts among the startup parameters."""


def connect(address: str = "", **overrides: Any) -> psycopg.Connection[Any]:
    """Open a session with timeouts. Through a pooler it has none, and each transaction must set them.

    Keepalives detect a dead peer while nothing is sent. Raises psycopg's errors.
    """
    arguments: dict[str, Any] = {
        "connect_timeout": CONNECT_SECONDS,
        "tcp_user_timeout": TCP_USER_TIMEOUT_MILLISECONDS,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "application_name": "triggerctl",
    }
    options = " ".join(f"-c {name}={value}" for name, value in SESSION_TIMEOUTS.items())
    try:
        connection = psycopg.connect(address, **{**arguments, "options": options, **overrides})
    except psycopg.OperationalError as error:
        if _REFUSED not in str(error):
            raise
        connection = psycopg.connect(address, **{**arguments, **overrides})
    connection.prepare_threshold = None  # psycopg would DEALLOCATE ALL when it rolls back: what we prepared, too
    return connection


def is_pooled(connection: psycopg.Connection[Any]) -> bool:
    """Return True when a pooler stands between, in any mode.

    A pooler invents the backend number that it tells its client, so it differs from the one that answers.
    """
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return row is not None and row[0] != connection.info.backend_pid


def timeouts(server_version: int) -> dict[str, str]:
    """Return the timeouts that a transaction must set for itself behind a pooler."""
    if server_version < 170_000:
        return SESSION_TIMEOUTS
    return SESSION_TIMEOUTS | {"transaction_timeout": TRANSACTION_TIMEOUT}


Query = tuple[Select[Any] | ReturningUpdate[Any], Mapping[str, Any]]
"""A statement that returns rows, and its parameters by name. A statement object is compiled once per process and
prepared once per connection, so it should be a constant of its module."""
Write = tuple[Insert | Update | Delete, Mapping[str, Any]]

POOLED = "pooled"
"""Key of a connection's `info`: whether a pooler stands between it and the server."""


def fetch(connection: Connection, *questions: Query) -> list[list[Any]]:
    """Return the rows of each statement.

    The server executes them in order: locks are taken in the order of the statements, and each statement sees what
    those before it waited for.
    """
    if connection.dialect.name != "postgresql":
        return [list(connection.execute(statement, dict(parameters))) for statement, parameters in questions]
    return _send(connection, questions)


def write(connection: Connection, *writes: Write) -> None:
    """Execute writes in order and return nothing."""
    if connection.dialect.name == "postgresql":
        _send(connection, writes)
    else:
        for statement, parameters in writes:
            connection.execute(statement, dict(parameters))


def commit_with(connection: Connection, *writes: Write) -> None:
    """Execute the last writes of a transaction and commit it, in one round trip on PostgreSQL.

    The transaction is over when this returns: it can neither be rolled back nor execute another statement.
    """
    transaction = connection.get_transaction()
    assert transaction is not None
    if connection.dialect.name == "postgresql":
        _send(connection, writes, (_COMMIT, ()))
    else:
        write(connection, *writes)
    # On PostgreSQL the driver knows that the server has committed, and sends nothing more.
    transaction.commit()


def begin(connection: Connection) -> None:
    """Begin a transaction with timeouts of its own: behind a pooler the session's belong to anybody (O-08, O-09)."""
    driver = _driver(connection)
    limits = (
        Statement(name.encode(), f"SET LOCAL {name} = '{span}'".encode(), tuple)
        for name, span in timeouts(driver.info.server_version).items()
    )
    send(driver, None, (_BEGIN, ()), *((limit, ()) for limit in limits))


class Statement(NamedTuple):
    """SQL text, the unique name under which a connection prepares it, and the function that makes a row of values."""

    name: bytes
    text: bytes
    row: Callable[[Sequence[Any]], Any]


_BEGIN, _COMMIT = (Statement(text.lower(), text, tuple) for text in (b"BEGIN", b"COMMIT"))


def send(
    connection: psycopg.Connection[Any], prepared: set[bytes] | None, *statements: tuple[Statement, Sequence[Any]]
) -> list[list[Any]]:
    """Send statements with their parameters in one round trip, and return the rows of each.

    `prepared` holds the names of statements that this connection has prepared, and new ones are added to it. With None
    nothing is prepared: a pooler may hand the next transaction to another session, which does not know the names.
    Raises the first error; the server skips the statements after it.
    """
    wire, values = connection.pgconn, Transformer(connection)
    bound = [values.dump_sequence(parameters, [PyFormat.TEXT] * len(parameters)) for _, parameters in statements]
    fresh = {}
    if prepared is not None:
        fresh = {statement.name: statement.text for statement, _ in statements if statement.name not in prepared}
    wire.enter_pipeline_mode()
    try:
        for name, text in fresh.items():
            wire.send_prepare(name, text)
        for (statement, _), parameters in zip(statements, bound, strict=True):
            if prepared is None:
                wire.send_query_params(statement.text, parameters)
            else:
                wire.send_query_prepared(statement.name, parameters)
        wire.pipeline_sync()
        results = connection.wait(_results(wire))
    finally:
        if wire.status == ConnStatus.OK:
            wire.exit_pipeline_mode()
    if prepared is not None:
        prepared.update(
            name for name, result in zip(fresh, results, strict=False) if result.status == ExecStatus.COMMAND_OK
        )
    _raise_first_error(wire, results)
    of_statements = zip(statements, results[len(fresh) :], strict=True)
    return [_rows(values, result, statement) for (statement, _), result in of_statements]


def _results(wire: PGconn) -> PQGen[list[PGresult]]:
    """Return the results up to the synchronisation point, or up to where the connection was lost."""
    yield from generators.send(wire)
    results: list[PGresult] = []
    while (batch := (yield from generators.fetch_many(wire))) and batch[0].status != ExecStatus.PIPELINE_SYNC:
        results.append(batch[0])
    return results


def _raise_first_error(wire: PGconn, results: Sequence[PGresult]) -> None:
    for result in results:
        if result.status == ExecStatus.FATAL_ERROR:
            error = error_from_result(result)
            raise error if wire.status == ConnStatus.OK else psycopg.OperationalError(str(error))


def _rows(values: abc.Transformer, result: PGresult, statement: Statement) -> list[Any]:
    if not result.ntuples:
        return []
    values.set_pgresult(result)
    return values.load_rows(0, result.ntuples, statement.row)


def _send(
    connection: Connection, statements: Sequence[Query | Write], *after: tuple[Statement, tuple[()]]
) -> list[list[Any]]:
    """Send SQLAlchemy's statements and those `after` them, in a new transaction where none has begun."""
    assert connection.in_transaction(), "the transaction is over: commit_with() was its last statement"
    driver = _driver(connection)
    bound = [_compiled(statement, tuple(parameters)).bound(parameters) for statement, parameters in statements]
    prepared = None if connection.info[POOLED] else connection.info.setdefault("prepared", set())
    if driver.pgconn.transaction_status == TransactionStatus.IDLE:
        return send(driver, prepared, (_BEGIN, ()), *bound, *after)[1:]
    return send(driver, prepared, *bound, *after)


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver


class _Compiled(NamedTuple):
    """A statement in PostgreSQL's syntax, the names of its parameters in order, and the values of constant ones."""

    statement: Statement
    order: tuple[str, ...]
    constants: dict[str, Any]

    def bound(self, parameters: Mapping[str, Any]) -> tuple[Statement, list[Any]]:
        values = {**self.constants, **parameters}
        return self.statement, [values[name] for name in self.order]


_DIALECT: Any = PGDialect_psycopg(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it so
_numbers = count()
_FLOAT8 = 701
"""Type id that result processors of number columns ask for; those of other types ignore it."""


@cache
def _compiled(statement: Select[Any] | Insert | Update | Delete, names: tuple[str, ...]) -> _Compiled:
    columns = list(statement.exported_columns)
    written = None if isinstance(statement, Select) else list(names)
    compiled: Any = statement.compile(dialect=_DIALECT, column_keys=written)
    return _Compiled(
        Statement(b"triggerctl_%d" % next(_numbers), str(compiled).encode(), _row(columns)),
        order=tuple(compiled.positiontup),
        constants={name: value for name, value in compiled.params.items() if name not in names},
    )


def _row(columns: Sequence[ColumnElement[Any]]) -> Callable[[Sequence[Any]], Any]:
    """Return a function that makes a named row of the values that the driver read."""
    if not columns:
        return tuple
    names = [str(column.key) for column in columns]
    made: Any = namedtuple("Row", names)  # type: ignore[misc]  # its fields are known only here
    processors = [column.type.dialect_impl(_DIALECT).result_processor(_DIALECT, _FLOAT8) for column in columns]
    processed = [(place, process) for place, process in enumerate(processors) if process]

    def row(values: Sequence[Any]) -> Any:
        row_values = list(values)
        for place, process in processed:
            row_values[place] = process(row_values[place])
        return made._make(row_values)

    return row
