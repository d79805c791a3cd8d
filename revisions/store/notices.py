"""Wake-ups through the database: an id and nothing else, so that a lost or doubled one is harmless."""

import threading
from collections.abc import Callable, Mapping
from enum import StrEnum

import psycopg
from psycopg import sql
from sqlalchemy import Connection, bindparam, func, select

from revisions.clock import HostClock
from revisions.ids import fresh
from revisions.store import sessions
from revisions.store.database import Database, parse_url

CHANGES = "triggerctl_changes"
"""Sent with every row of the feed: the trigger's id; empty where something else changed."""
RUNS = "triggerctl_runs"
_NOTIFY = select(func.pg_notify(bindparam("channel"), bindparam("payload")))


def changed(connection: Connection) -> None:
    """Tells the loops to look again, where no revision tells them; sent when the transaction commits."""
    if connection.dialect.name == "postgresql":
        connection.execute(_NOTIFY, {"channel": CHANGES, "payload": ""})


def runs_pending(connection: Connection) -> None:
    """Tells the runners that there is something to claim; sent when the transaction commits."""
    if connection.dialect.name == "postgresql":
        connection.execute(_NOTIFY, {"channel": RUNS, "payload": ""})


class Hearing(StrEnum):
    """Whether what is said in the database is heard where one listens: it is; nobody lets one in there; a pooler is
    there, which passes no notices on; nothing came, for it is another database."""

    HEARD = "heard"
    UNREACHABLE = "unreachable"
    POOLED = "pooled"
    ELSEWHERE = "elsewhere"


def check_hearing(database: Database, past: str | None, seconds: float = 2.0) -> Hearing:
    """Tries it with a notice of its own, which is waited for that long; `past` as for the listener (PostgreSQL).

    Raises Unavailable when the database itself cannot be reached, Invalid when `past` is no database.
    """
    channel = f"triggerctl_{fresh(HostClock().now(None)).lower()}"
    try:
        with sessions.connect(_address(database, past), autocommit=True) as connection:
            if sessions.is_pooled(connection):
                return Hearing.POOLED
            connection.execute(_listen(channel))
            with database.read() as speaking:
                speaking.execute(_NOTIFY, {"channel": channel, "payload": ""})
            heard = next(connection.notifies(timeout=seconds, stop_after=1), None)
    except psycopg.Error:
        return Hearing.UNREACHABLE
    return Hearing.HEARD if heard else Hearing.ELSEWHERE


class Listener:
    """A thread that hears the database's notices and passes each to its channel's wake (PostgreSQL; L-04).

    After a lost connection it connects anew and wakes everybody, for what was said meanwhile nobody heard. Through a
    pooler nothing is heard, and it is not connected.
    """

    LOOK_SECONDS = 1.0
    LONGEST_BACKOFF_SECONDS = 10.0

    def __init__(self, database: Database, wakes: Mapping[str, Callable[[], None]], past: str | None = None) -> None:
        """`past` is the URL of the same database past a pooler, through which nothing is heard (O-09)."""
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
                with sessions.connect(self._address, autocommit=True) as connection:
                    if sessions.is_pooled(connection):
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
