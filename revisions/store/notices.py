"""Notices (LISTEN/NOTIFY) that wake loops and runners; a lost or repeated one is harmless."""

import threading
from collections.abc import Callable, Mapping
from enum import StrEnum

import psycopg
from psycopg import sql
from sqlalchemy import Connection, bindparam, func, select

from revisions.clock import HostClock
from revisions.ids import fresh
from revisions.store.database import Database, parse_url
from revisions.store.sessions import connect, is_pooled

CHANGES = "triggerctl_changes"
"""Channel of changes: the payload is the trigger's id, empty for changes that are no revision."""
RUNS = "triggerctl_runs"
_NOTIFY = select(func.pg_notify(bindparam("channel"), bindparam("payload")))


def changed(connection: Connection) -> None:
    """Wake the loops after a change that is no revision; sent at commit."""
    if connection.dialect.name == "postgresql":
        connection.execute(_NOTIFY, {"channel": CHANGES, "payload": ""})


def runs_pending(connection: Connection) -> None:
    """Wake the runners to claim runs; sent at commit."""
    if connection.dialect.name == "postgresql":
        connection.execute(_NOTIFY, {"channel": RUNS, "payload": ""})


class Hearing(StrEnum):
    """Result of a test of notices. POOLED: a pooler stands between and forwards none. ELSEWHERE: another database
    listens.
    """

    HEARD = "heard"
    UNREACHABLE = "unreachable"
    POOLED = "pooled"
    ELSEWHERE = "elsewhere"


def check_hearing(database: Database, past: str | None, seconds: float = 2.0) -> Hearing:
    """Send a notice and wait `seconds` for it; `past` as for Listener (PostgreSQL).

    Raises Unavailable when the database cannot be reached, and Invalid when `past` is not a database URL.
    """
    channel = f"triggerctl_{fresh(HostClock().now(None)).lower()}"
    try:
        with connect(_address(database, past), autocommit=True) as connection:
            if is_pooled(connection):
                return Hearing.POOLED
            connection.execute(_listen(channel))
            with database.read() as speaking:
                speaking.execute(_NOTIFY, {"channel": channel, "payload": ""})
            heard = next(connection.notifies(timeout=seconds, stop_after=1), None)
    except psycopg.Error:
        return Hearing.UNREACHABLE
    return Hearing.HEARD if heard else Hearing.ELSEWHERE


class Listener:
    """Thread that listens for notices and calls the wake function of their channel (PostgreSQL; L-04).

    After a lost connection it reconnects and calls every wake function, because notices were missed meanwhile. A pooler
    forwards no notices, so a connection through one is not used.
    """

    LOOK_SECONDS = 1.0
    LONGEST_BACKOFF_SECONDS = 10.0

    def __init__(self, database: Database, wakes: Mapping[str, Callable[[], None]], past: str | None = None) -> None:
        """`past` is a URL of the same database that bypasses the pooler (O-09)."""
        self._address = _address(database, past)
        self._wakes = wakes
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="listener", daemon=True)
        self.connected = False

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                with connect(self._address, autocommit=True) as connection:
                    if is_pooled(connection):
                        raise psycopg.NotSupportedError("a pooler passes no notices on")
                    for channel in self._wakes:
                        connection.execute(_listen(channel))
                    self.connected, failures = True, 0
                    for wake in self._wakes.values():
                        wake()
                    self._hear(connection)
            except psycopg.Error:
                self.connected = False
                failures += 1
                self._stopping.wait(min(0.1 * 2**failures, self.LONGEST_BACKOFF_SECONDS))
        self.connected = False

    def _hear(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        while not self._stopping.is_set():
            for notice in connection.notifies(timeout=self.LOOK_SECONDS):
                self._wakes[notice.channel]()
                if self._stopping.is_set():
                    return


def _address(database: Database, past: str | None) -> str:
    url = parse_url(past, "listen-url") if past else database.url
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


def _listen(channel: str) -> sql.Composed:
    return sql.SQL("LISTEN {}").format(sql.Identifier(channel))
