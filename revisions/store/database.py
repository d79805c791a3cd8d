"""Connections, transactions and the clock of the database, on PostgreSQL and SQLite."""

import math
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import psycopg
from psycopg.errors import ReadOnlySqlTransaction
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    event,
    func,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DBAPIError,
    DisconnectionError,
    InterfaceError,
    InternalError,
    OperationalError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from revisions.clock import Clock, HostClock
from revisions.errors import Fault, Invalid, Unavailable
from revisions.store import sessions
from revisions.store.sessions import Query
from revisions.store.tables import SCHEMA, schema_support

__all__ = ["Connection", "Database", "PoolUse", "ServerClock"]

MAX_OVERFLOW = 10
"""Connections that may be opened beyond the pool's size."""
SQLITE_BUSY_SECONDS = 30.0
CONNECTION_SECONDS = 10.0
"""Longest wait for a free connection of the pool, seconds (PostgreSQL)."""
ASKED_WHEN_IDLE_SECONDS = 1.0
_UPGRADE = "run `triggerctl db upgrade`"


class ServerClock(HostClock):
    """Clock of the PostgreSQL server, which all replicas share (invariant 6)."""

    def now(self, connection: Any, /) -> datetime:
        return self.after(connection)[1]

    def after(self, connection: Connection, *questions: Query) -> tuple[list[list[Any]], datetime]:
        """Return the rows of each query, and the time after the last of them, in one round trip.

        The time is read by the last statement: after a wait for a lock, the transaction's own start time lies in the
        past.
        """
        *answers, [(now,)] = sessions.fetch(connection, *questions, (_SERVER_NOW, {}))
        return answers, now.astimezone(UTC)


class PoolUse(NamedTuple):
    """Connections of this process: used, idle, and those that may still be opened."""

    used: int
    idle: int
    free: int


_SERVER_NOW = select(func.clock_timestamp().label("now"))


def fetch_with_time(clock: Clock, connection: Connection, *questions: Query) -> tuple[list[list[Any]], datetime]:
    """Return the rows of each query (`sessions.fetch`), and the time after the last of them."""
    if isinstance(clock, ServerClock):
        return clock.after(connection, *questions)
    return sessions.fetch(connection, *questions), clock.now(connection)


class Database:
    """A database; `read` and `write` open a transaction and yield its connection.

    Raises Unavailable when the database cannot be reached, is too busy, refuses writes, or was never set up.
    """

    def __init__(self, url: str, *, create: bool = False, pool_size: int = 20) -> None:
        self.url = parse_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._writing = threading.RLock()
        self.engine = _sqlite_engine(self.url, create) if self.is_sqlite else _postgresql_engine(self.url, pool_size)
        self.clock: Clock = HostClock() if self.is_sqlite else ServerClock()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that only reads."""
        with _reachable(self.url), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction that writes; on SQLite it holds the process-wide write lock from its first statement."""
        with _reachable(self.url):
            if self.is_sqlite:
                with self._writing, self.engine.connect() as connection:
                    connection.execution_options(writes=True)
                    with connection.begin():
                        yield connection
            else:
                with self.engine.connect() as connection, connection.begin():
                    yield connection

    def schema(self) -> str | None:
        """Return the schema version, None when the database was never set up."""
        with self.read() as connection:
            if not self.engine.dialect.has_table(connection, "alembic_version"):
                return None
            return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()

    def check_schema(self) -> None:
        """Raise Unavailable when this release cannot work with the database's schema.

        A newer schema is accepted while it declares itself readable: in a rolling upgrade two releases run at once
        (R-19).
        """
        found = self.schema()
        if found is None:
            raise Unavailable.hinted("database", f"{self} is not set up: {_UPGRADE}", _UPGRADE)
        if found < SCHEMA:
            detail = f"{self} has schema {found}, this release needs {SCHEMA}: {_UPGRADE}"
            raise Unavailable.hinted("database", detail, _UPGRADE)
        if found > SCHEMA:
            with self.read() as connection:
                since = connection.execute(select(schema_support.c.readable_since)).scalar_one()
            if since > SCHEMA:
                way = f"use a release for schema {since} or newer"
                detail = f"{self} has schema {found}, which is too new for this release ({SCHEMA}): {way}"
                raise Unavailable.hinted("database", detail, way)

    def pool_use(self) -> PoolUse:
        """Return the present use of the connection pool, without a query."""
        pool = self.engine.pool
        assert isinstance(pool, QueuePool)
        used, idle = pool.checkedout(), pool.checkedin()
        return PoolUse(used, idle, max(0, pool.size() + MAX_OVERFLOW - used - idle))

    def close(self) -> None:
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        return _shown(self.url)


def parse_url(url: str, path: str = "database-url") -> URL:
    """Return a database's URL with its driver. Raises Invalid at `path`, the name of the setting."""
    try:
        found = make_url(url)
        backend = found.get_backend_name()
    except ArgumentError:
        backend = ""
    if backend == "sqlite" and found.database:
        return found
    if backend in ("postgresql", "postgres"):
        return found.set(drivername="postgresql+psycopg")
    fault = Fault(path, f"{url!r} is not a database", "sqlite:///file.db or postgresql://user@host/database")
    raise Invalid(f"{fault.path}: {fault.message}", [fault])


@contextmanager
def _reachable(url: URL) -> Iterator[None]:
    try:
        yield
    except (
        OperationalError,
        InterfaceError,
        PoolTimeoutError,
        psycopg.OperationalError,  # from the pipeline, where SQLAlchemy is not between
        psycopg.InterfaceError,
        ReadOnlySqlTransaction,
    ) as error:
        raise _unavailable(url, error) from error
    except DBAPIError as error:
        if not (error.connection_invalidated or _is_of_no_use(error)):
            raise
        raise _unavailable(url, error) from error


def _is_of_no_use(error: DBAPIError) -> bool:
    """Return True for errors of permission, of a database that refuses writes, and of a file that is not SQLite's."""
    if isinstance(error, ProgrammingError | InternalError):
        return isinstance(error.orig, psycopg.errors.InsufficientPrivilege | ReadOnlySqlTransaction)
    return type(error) is DatabaseError and isinstance(error.orig, sqlite3.DatabaseError)


def _unavailable(url: URL, error: Exception) -> Unavailable:
    """Return the error for the caller, with a hint where the remedy is known."""
    detail = f"{_shown(url)}: {_reason(error)}"
    match getattr(error, "orig", error):
        case psycopg.errors.InsufficientPrivilege():
            return Unavailable.hinted("database", detail, "`triggerctl doctor` says what its role lacks")
        case ReadOnlySqlTransaction() | sqlite3.DatabaseError(sqlite_errorname="SQLITE_READONLY"):
            return Unavailable.hinted("database", detail, "name one that takes writes, such as the primary")
        case sqlite3.DatabaseError(sqlite_errorname="SQLITE_CANTOPEN"):
            return Unavailable.hinted("database", detail, "see that its folder is there and can be written to")
        case sqlite3.DatabaseError(sqlite_errorname="SQLITE_NOTADB" | "SQLITE_CORRUPT"):
            return Unavailable.hinted("database", detail, "name another file with --database-url, or restore a backup")
        case _:
            return Unavailable(detail)


def _shown(url: URL) -> str:
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)


def _reason(error: Exception) -> str:
    origin = getattr(error, "orig", None) or error
    return str(origin).strip().splitlines()[0] if str(origin).strip() else type(origin).__name__


def _postgresql_engine(url: URL, pool_size: int) -> Engine:
    engine = create_engine(url, pool_size=pool_size, max_overflow=MAX_OVERFLOW, pool_timeout=CONNECTION_SECONDS)

    @event.listens_for(engine, "do_connect")
    def connect(_: Any, __: Any, address: Sequence[str], given: Mapping[str, Any]) -> psycopg.Connection[Any]:
        return sessions.connect(*address, **given)

    @event.listens_for(engine, "connect")
    def bound(connection: psycopg.Connection[Any], record: ConnectionPoolEntry) -> None:
        record.info[sessions.POOLED] = is_pooled = sessions.is_pooled(connection)
        if not is_pooled and connection.info.server_version >= 170_000:
            connection.execute("SELECT set_config('transaction_timeout', %s, false)", [sessions.TRANSACTION_TIMEOUT])
        connection.commit()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if connection.info[sessions.POOLED]:
            sessions.begin(connection)

    @event.listens_for(engine, "checkin")
    def note(_: Any, record: ConnectionPoolEntry) -> None:
        record.info["idle_since"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def ask(connection: psycopg.Connection[Any], record: ConnectionPoolEntry, _: Any) -> None:
        """Check a connection that was idle, and have the pool replace it if the server has closed it."""
        if time.monotonic() - record.info.get("idle_since", math.inf) > ASKED_WHEN_IDLE_SECONDS:
            try:
                connection.execute("")
                connection.rollback()
            except psycopg.Error as error:
                raise DisconnectionError(str(error)) from error

    return engine


def _sqlite_engine(url: URL, create: bool) -> Engine:
    path = Path(url.database or "").absolute()

    def connect() -> sqlite3.Connection:
        if not create and not path.exists():
            raise Unavailable.hinted("database", f"{_shown(url)}: no such file", _UPGRADE)
        connection = sqlite3.connect(path, timeout=SQLITE_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")
        return connection

    engine = create_engine(url, creator=connect, max_overflow=MAX_OVERFLOW)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
