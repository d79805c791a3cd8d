"""Statements sent together: errors, commits and prepared statements."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import func, insert, select, text
from sqlalchemy.exc import InvalidRequestError

from revisions.errors import Unavailable
from revisions.store import sessions
from revisions.store.database import Connection, Database
from revisions.store.tables import trigger_changes

_COUNT = select(func.count().label("count")).select_from(trigger_changes)
_CHANGE = insert(trigger_changes).inline()
_VALID = {"trigger_id": "one", "revision": 1}
_INVALID = {"trigger_id": None, "revision": 1}
_TERMINATE_OTHER_SESSIONS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND datname = current_database() AND application_name = 'triggerctl'"""


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with Database(database_url, pool_size=1) as database:
        yield database


def count(database: Database) -> int:
    with database.write() as connection:
        [[row]] = sessions.fetch(connection, (_COUNT, {}))
    number: int = row.count
    return number


def roll_back_after(database: Database, work: Callable[[Connection], Any]) -> None:
    """Do work in a transaction that ends with an exception."""

    def raise_after_work() -> None:
        with database.write() as connection:
            work(connection)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        raise_after_work()


@pytest.mark.parametrize("execute", [sessions.write, sessions.commit_with])
def test_a_failed_write_rolls_back_the_transaction(database: Database, execute: Callable[..., None]) -> None:
    """The first error is raised, and the connection can be used again."""
    for _ in range(2):
        with pytest.raises(Exception, match=r"(?i)null"), database.write() as connection:
            execute(connection, (_CHANGE, _VALID), (_CHANGE, _INVALID), (_CHANGE, _VALID))
    with database.write() as connection:
        execute(connection, (_CHANGE, _VALID))
    assert count(database) == 1


FURTHER_STATEMENTS: dict[str, Callable[[Connection], object]] = {
    "executed by SQLAlchemy": lambda connection: connection.execute(_COUNT),
    "sent as a query": lambda connection: sessions.fetch(connection, (_COUNT, {})),
    "sent as a write": lambda connection: sessions.write(connection, (_CHANGE, _VALID)),
}


@pytest.mark.parametrize("execute", FURTHER_STATEMENTS.values(), ids=FURTHER_STATEMENTS)
def test_a_committed_transaction_refuses_further_statements(
    database: Database, execute: Callable[[Connection], object]
) -> None:

    def go_on_after_commit() -> None:
        with database.write() as connection:
            sessions.commit_with(connection, (_CHANGE, _VALID))
            execute(connection)

    with pytest.raises((AssertionError, InvalidRequestError)):
        go_on_after_commit()
    assert count(database) == 1


def test_prepared_statements_outlive_rollbacks_and_dropped_objects(database: Database) -> None:
    """If psycopg prepared the statements itself, it would deallocate all of them after a rollback."""
    assert count(database) == 0
    for _ in range(10):
        with database.write() as connection:
            connection.execute(text("SELECT 1"))
    with database.write() as connection:
        connection.execute(text("CREATE TABLE passing (id int)"))
        connection.execute(text("DROP TABLE passing"))
    roll_back_after(database, lambda connection: connection.execute(text("SELECT 1")))
    assert count(database) == 0


def test_a_connection_that_the_server_closed_is_replaced(database: Database, database_url: str) -> None:
    """The transaction raises Unavailable, and the next one gets a new connection."""
    if database.is_sqlite:
        pytest.skip("SQLite has no server")

    def lose_connection() -> None:
        with database.write() as connection:
            sessions.fetch(connection, (_COUNT, {}))
            with psycopg.connect(database_url) as other:
                other.execute(_TERMINATE_OTHER_SESSIONS)
            sessions.fetch(connection, (_COUNT, {}))

    with pytest.raises(Unavailable):
        lose_connection()
    assert count(database) == 0
