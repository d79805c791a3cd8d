"""PostgreSQL database that is reused by all tests of a worker.

It is emptied between tests, and created again after a test that changed more than rows.
"""

from contextlib import suppress

import psycopg
from psycopg import Connection, sql
from sqlalchemy import make_url

from revisions.store import schema
from revisions.store.database import Database

_PAGES_TO_TRUNCATE = 64
"""DELETE of a few rows takes a tenth of the time of TRUNCATE; only TRUNCATE makes a large file small again."""
_END_OTHERS = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
_FINGERPRINT = """
SELECT md5(string_agg(line, '' ORDER BY line)) FROM (
    SELECT (oid, relname, relnamespace, relkind, relowner, relacl, reloptions)::text
    FROM pg_class WHERE oid >= 16384 AND relkind <> 't'
    UNION ALL SELECT a::text FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid
    WHERE attrelid >= 16384 AND relkind <> 't'
    UNION ALL SELECT o::text FROM pg_attrdef o
    UNION ALL SELECT o::text FROM pg_constraint o WHERE oid >= 16384
    UNION ALL SELECT (tgrelid, tgname, tgfoid, tgtype, tgenabled, tgattr, tgargs, tgqual)::text FROM pg_trigger
    UNION ALL SELECT o::text FROM pg_event_trigger o
    UNION ALL SELECT o::text FROM pg_proc o WHERE oid >= 16384
    UNION ALL SELECT o::text FROM pg_namespace o WHERE oid >= 16384
    UNION ALL SELECT o::text FROM pg_db_role_setting o JOIN pg_database d ON d.oid = setdatabase
    WHERE datname = current_database()
    UNION ALL SELECT o::text FROM alembic_version o
    UNION ALL SELECT o::text FROM schema_support o
    UNION ALL SELECT o::text FROM installation o
) AS everything(line)
"""
"""Hash of everything in the database except table sizes, statistics and the rows that tests insert."""
_TABLES = """
SELECT relname, relpages_now FROM (
    SELECT relname, pg_relation_size(oid) / current_setting('block_size')::int AS relpages_now
    FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
) AS sized WHERE relpages_now > 0
AND relname NOT IN ('alembic_version', 'schema_support', 'installation') ORDER BY relname
"""
_DISABLE_AUTOVACUUM = """
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_enabled = off)', name);
    END LOOP;
END $$
"""
"""Statistics about deleted rows would change the query plans of later tests."""
_GUARDS = "SELECT tgrelid::regclass::name, tgname FROM pg_trigger WHERE tgenabled = 'A' ORDER BY tgname"
_RESTART = "SELECT setval(oid, 1, false) FROM pg_class WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace"


class ReusedDatabase:
    """Migrated database that is emptied on request."""

    def __init__(self, server: str, name: str) -> None:
        self._server, self._name, self._template = server, f"test_{name}", f"template_{name}"
        self._recreate(self._template, "template0")
        with Database(self._url(self._template)) as database:
            schema.upgrade(database)
        with psycopg.connect(self._url(self._template)) as connection:
            connection.execute(_DISABLE_AUTOVACUUM)
        self._fingerprint: str | None = None

    def as_new(self) -> str:
        """Return the URL of the database, empty and without connections."""
        if self._fingerprint is None or not self._try_to_empty():
            self._recreate(self._name, self._template)
            with psycopg.connect(self._url(self._name)) as connection:
                self._fingerprint = _scalar(connection, _FINGERPRINT)
        return self._url(self._name)

    def _try_to_empty(self) -> bool:
        """Delete all rows; return False if the database is missing or its schema was changed."""
        with suppress(psycopg.Error), psycopg.connect(self._url(self._name)) as connection:
            connection.execute(_END_OTHERS)
            if _scalar(connection, _FINGERPRINT) == self._fingerprint:
                _delete_rows(connection)
                return True
        return False

    def _url(self, name: str) -> str:
        return make_url(self._server).set(database=name).render_as_string(hide_password=False)

    def _recreate(self, name: str, template: str) -> None:
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')


def _delete_rows(connection: Connection) -> None:
    """Delete the rows of all tables.

    The triggers that protect the history are disabled in the same transaction, so other sessions never see them
    disabled.
    """
    sizes: dict[str, int] = dict(connection.execute(_TABLES).fetchall())
    guards = [(table, guard) for table, guard in connection.execute(_GUARDS).fetchall() if table in sizes]
    for table in {table for table, _ in guards}:
        _run(connection, "ALTER TABLE {} DISABLE TRIGGER USER", table)
    for table, pages in sizes.items():
        _run(connection, "TRUNCATE {}" if pages > _PAGES_TO_TRUNCATE else "DELETE FROM {}", table)
    for table, guard in guards:
        _run(connection, "ALTER TABLE {} ENABLE ALWAYS TRIGGER {}", table, guard)
    connection.execute(_RESTART)


def _run(connection: Connection, statement: str, *names: str) -> None:
    connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def _scalar(connection: Connection, question: str) -> str:
    row = connection.execute(question).fetchone()
    assert row is not None
    return str(row[0])
