"""PostgreSQL alone, on its own clock, watched for deadlocks."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from tests.waiting import eventually


@pytest.fixture
def database_url(postgresql_database_url: str, postgresql_log: Path | None) -> Iterator[str]:
    """An own database, whose count of deadlocks stays, as the server's log does (one that is not ours is not read)."""
    begin = postgresql_log.stat().st_size if postgresql_log else 0
    before = _deadlocks(postgresql_database_url)
    yield postgresql_database_url
    assert _deadlocks(postgresql_database_url) == before
    if postgresql_log:
        assert b"deadlock detected" not in postgresql_log.read_bytes()[begin:]


def _deadlocks(url: str) -> int:
    """What the server counted; a session's count is complete once the session has ended."""
    address = make_url(url)
    name, server = address.database, address.set(database="postgres").render_as_string(hide_password=False)
    with psycopg.connect(server, autocommit=True) as connection:

        def ask(question: str) -> int:
            row = connection.execute(question, [name]).fetchone()
            assert row is not None
            return int(row[0])

        eventually(lambda: ask("SELECT count(*) FROM pg_stat_activity WHERE datname = %s") == 0)
        return ask("SELECT deadlocks FROM pg_stat_database WHERE datname = %s")
