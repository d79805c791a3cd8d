"""Which database it is that answers."""

from dataclasses import dataclass

from sqlalchemy import Connection, text

from revisions.store.guards import GUARDED
from revisions.store.pipeline import POOLED
from revisions.store.tables import schema_support
from revisions.store.columns import metadata

VERSIONS = "alembic_version"
"""Alembic's own table, by which a release knows the schema."""


@dataclass(frozen=True, slots=True)
class DatabaseServer:
    """`major` is PostgreSQL's; SQLite is a library and has none. `is_pooled`: a pooler is before it."""

    name: str
    version: str
    major: int | None
    is_pooled: bool = False


@dataclass(frozen=True, slots=True)
class DatabaseRights:
    """Who one is in the database, and what one may not that has to be: `right on table`."""

    role: str
    is_superuser: bool
    lacking: tuple[str, ...]

    @property
    def is_blind(self) -> bool:
        """Whether something that has to be read may not be."""
        return any(right.startswith("SELECT ") for right in self.lacking)


def rights(connection: Connection) -> DatabaseRights | None:
    """What the database's role may do with the tables that are there; None on SQLite, where who may write the file may
    do all."""
    if connection.dialect.name != "postgresql":
        return None
    who = connection.execute(text("SELECT rolname, rolsuper FROM pg_roles WHERE rolname = current_user")).one()
    tables = sorted({*metadata.tables, VERSIONS})
    wanted = [(table, right) for table in tables for right in _needed(table)]
    asked = text(
        "SELECT wanted, of_table FROM unnest(CAST(:tables AS text[]), CAST(:rights AS text[])) AS o(of_table, wanted)"
        " WHERE CASE WHEN to_regclass(of_table) IS NOT NULL THEN NOT has_table_privilege(of_table, wanted) END"
    )
    given = {"tables": [table for table, _ in wanted], "rights": [right for _, right in wanted]}
    lacking = connection.execute(asked, given)
    return DatabaseRights(who.rolname, who.rolsuper, tuple(f"{right} on {table}" for right, table in lacking))


def _needed(table: str) -> tuple[str, ...]:
    if table in (schema_support.name, VERSIONS):
        return ("SELECT",)
    return ("SELECT", "INSERT") if table in GUARDED else ("SELECT", "INSERT", "UPDATE", "DELETE")


def describe(connection: Connection) -> DatabaseServer:
    """The server's own account of itself."""
    if connection.dialect.name != "postgresql":
        return DatabaseServer("SQLite", str(connection.execute(text("SELECT sqlite_version()")).scalar_one()), None)
    told = "SELECT current_setting('server_version'), current_setting('server_version_num')::int / 10000"
    version, major = connection.execute(text(told)).one()
    return DatabaseServer("PostgreSQL", str(version).split(" ")[0], int(major), connection.info[POOLED])
