"""Turns on the wire: what they leave behind when something in them fails, and what outlives them."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import func, insert, select, text

from revisions.errors import Unavailable
from revisions.store import pipeline
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
        [[row]] = pipeline.fetch(connection, (_COUNT, {}))
    found: int = row.count
    return found


def left(database: Database, work: Callable[[Connection], Any]) -> None:
    """A transaction that somebody leaves by an exception once the work is done."""

    def leave() -> None:
        with database.write() as connection:
            work(connection)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        leave()


@pytest.mark.parametrize("is_last", [False, True])
def test_a_turn_in_which_something_fails(database: Database, is_last: bool) -> None:
    """Its first error is raised, nothing of the transaction stays, and the connection goes on."""
    for _ in range(2):
        with pytest.raises(Exception, match=r"(?i)null"), database.write() as connection:
            pipeline.write(connection, (_CHANGE, _SOUND), (_CHANGE, _REFUSED), (_CHANGE, _SOUND), commits=is_last)
    with database.write() as connection:
        pipeline.write(connection, (_CHANGE, _SOUND), commits=is_last)
    assert count(database) == 1


def test_what_was_kept_for_an_end_that_never_came(database: Database) -> None:
    """It is not sent with the next transaction of the same connection."""
    left(database, lambda connection: pipeline.write(connection, (_CHANGE, _SOUND), commits=True))
    assert count(database) == 0


def test_what_is_prepared_outlives_rollbacks_and_dropped_objects(database: Database) -> None:
    """psycopg deallocates all statements then, where it prepares some itself."""
    assert count(database) == 0
    for _ in range(10):
        with database.write() as connection:
            connection.execute(text("SELECT 1"))
    with database.write() as connection:
        connection.execute(text("CREATE TABLE passing (id int)"))
        connection.execute(text("DROP TABLE passing"))
    left(database, lambda connection: connection.execute(text("SELECT 1")))
    assert count(database) == 0


def test_a_connection_that_the_server_ended(database: Database, database_url: str) -> None:
    """The transaction fails as one that cannot reach the database, and the next has a new connection."""
    if database.is_sqlite:
        pytest.skip("there is no server")

    def ended() -> None:
        with database.write() as connection:
            pipeline.fetch(connection, (_COUNT, {}))
            with psycopg.connect(database_url) as other:
                other.execute(_END_THE_OTHERS)
            pipeline.fetch(connection, (_COUNT, {}))

    with pytest.raises(Unavailable):
        ended()
    assert count(database) == 0
