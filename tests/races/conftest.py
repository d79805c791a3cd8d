"""Races run on PostgreSQL alone, on its own clock, and must cause no deadlock."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from tests.waiting import eventually


@pytest.fixture
def database_url(postgresql_database_url: str, postgresql_log: Path | None) -> Iterator[str]:
    """Database whose server counts and logs no deadlock; the log of an external server is not read."""
    begin = postgresql_log.stat().st_size if postgresql_log else 0
    before = _deadlocks(postgresql_database_url)
    yield postgresql_database_url
    assert _deadlocks(postgresql_database_url) == before
    if postgresql_log:
        assert b"deadlock detected" not in postgresql_log.read_bytes()[begin:]


def _deadlocks(url: str) -> int:
    """Return the server's count of deadlocks, which is complete once every session has ended."""
    address = make_url(url)
    name, server = address.database, address.set(database="postgres").render_as_string(hide_password=False)
    with psycopg.connect(server, autocommit=True) as connection:

        def count(query: str) -> int:
            row = connection.execute(query, [name]).fetchone()
            assert row is not None
            return int(row[0])

        eventually(lambda: count("SELECT count(*) FROM pg_stat_activity WHERE datname = %s") == 0)
        return count("SELECT deadlocks FROM pg_stat_database WHERE datname = %s")
