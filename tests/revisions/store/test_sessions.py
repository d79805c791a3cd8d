"""Statements sent together: what an error leaves behind, and what outlives a transaction."""

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
_SOUND = {"trigger_id": "one", "revision": 1}
_REFUSED = {"trigger_id": None, "revision": 1}
_END_THE_OTHERS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND datname = current_database() AND application_name = 'triggerctl'"""


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with Database(database_url, pool_size=1) as database:
        yield database


def count(database: Database) -> int:
    with database.write() as connection:
        [[row]] = sessions.fetch(connection, (_COUNT, {}))
    found: int = row.count
    return found


def roll_back_after(database: Database, work: Callable[[Connection], Any]) -> None:
    """Do work in a transaction that ends with an exception."""

    def raise_after_work() -> None:
        with database.write() as connection:
            work(connection)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        raise_after_work()


@pytest.mark.parametrize("execute", [sessions.write, sessions.commit_with])
def test_a_failed_write_leaves_nothing_of_the_transaction(database: Database, execute: Callable[..., None]) -> None:
    """The first error is raised, and the connection can be used again."""
    for _ in range(2):
        with pytest.raises(Exception, match=r"(?i)null"), database.write() as connection:
            execute(connection, (_CHANGE, _SOUND), (_CHANGE, _REFUSED), (_CHANGE, _SOUND))
    with database.write() as connection:
        execute(connection, (_CHANGE, _SOUND))
    assert count(database) == 1


FURTHER_STATEMENTS: dict[str, Callable[[Connection], object]] = {
    "executed by SQLAlchemy": lambda connection: connection.execute(_COUNT),
    "sent as a query": lambda connection: sessions.fetch(connection, (_COUNT, {})),
    "sent as a write": lambda connection: sessions.write(connection, (_CHANGE, _SOUND)),
}


@pytest.mark.parametrize("execute", FURTHER_STATEMENTS.values(), ids=FURTHER_STATEMENTS)
def test_a_committed_transaction_takes_no_further_statement(
    database: Database, execute: Callable[[Connection], object]
) -> None:

    def go_on_after_commit() -> None:
        with database.write() as connection:
            sessions.commit_with(connection, (_CHANGE, _SOUND))
            execute(connection)

    with pytest.raises((AssertionError, InvalidRequestError)):
        go_on_after_commit()
    assert count(database) == 1


def test_prepared_statements_outlive_rollbacks_and_dropped_objects(database: Database) -> None:
    """psycopg would deallocate all of them if it prepared statements itself."""
    assert count(database) == 0
    for _ in range(10):
        with database.write() as connection:
            connection.execute(text("SELECT 1"))
    with database.write() as connection:
        connection.execute(text("CREATE TABLE passing (id int)"))
        connection.execute(text("DROP TABLE passing"))
    roll_back_after(database, lambda connection: connection.execute(text("SELECT 1")))
    assert count(database) == 0


def test_a_connection_that_the_server_ended_is_replaced(database: Database, database_url: str) -> None:
    """The transaction raises Unavailable, and the next one gets a new connection."""
    if database.is_sqlite:
        pytest.skip("there is no server")

    def ended() -> None:
        with database.write() as connection:
            sessions.fetch(connection, (_COUNT, {}))
            with psycopg.connect(database_url) as other:
                other.execute(_END_THE_OTHERS)
            sessions.fetch(connection, (_COUNT, {}))

    with pytest.raises(Unavailable):
        ended()
    assert count(database) == 0
