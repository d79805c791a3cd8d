"""Migrations up and down (Alembic), each ending with a look whether the guards of history stand (R-02, R-19)."""

from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, text

from revisions.errors import Invalid, Unavailable
from revisions.store import guards
from revisions.store.database import Database
from revisions.store.guards import GUARDED
from revisions.store.pipeline import POOLED
from revisions.store.sessions import SESSION_TIMEOUTS
from revisions.store.tables import schema_support
from revisions.store.whole_tables import LEFT, MOVED, REMADE

_ONE_AT_A_TIME = 7_261_001
"""Key of the advisory lock that migrations hold, so that two replicas starting together do not migrate at once."""

_AS_LONG_AS_IT_TAKES = """
SELECT set_config(name, '0', true) FROM pg_settings
WHERE name IN ('lock_timeout', 'statement_timeout', 'transaction_timeout')
"""
"""For the migration before, and for each statement: a large table is not rewritten in half a minute."""


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


def upgrade(database: Database, version: str = "head") -> None:
    """Migrates to a version. Raises Invalid when there is none of that name, Unavailable when a guard is missing."""
    _migrate(database, version, command.upgrade)


def downgrade(database: Database, version: str) -> None:
    """Migrates back to a version (`base` removes everything)."""
    _migrate(database, version, command.downgrade)


def versions() -> list[str]:
    """All schema versions this release knows, oldest first."""
    return [script.revision for script in reversed(list(ScriptDirectory.from_config(_config()).walk_revisions()))]


def rights(connection: Connection) -> DatabaseRights | None:
    """What the database's role may do with the tables that are there; None on SQLite, where who may write the file may
    do all."""
    if connection.dialect.name != "postgresql":
        return None
    who = connection.execute(text("SELECT rolname, rolsuper FROM pg_roles WHERE rolname = current_user")).one()
    tables = sorted({*MOVED, *REMADE, *LEFT, VERSIONS})
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


def _migrate(database: Database, version: str, run: object) -> None:
    config = _config()
    try:
        with database.write() as connection:
            if not database.is_sqlite:
                connection.execute(text(_AS_LONG_AS_IT_TAKES))
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_ONE_AT_A_TIME})"))
                _not_before_others(connection)
            config.attributes["connection"] = connection
            assert callable(run)
            run(config, version)
            _check(connection)
    except CommandError as error:
        raise Invalid.at("version", str(error), f"one of {', '.join(versions())}") from error


def _not_before_others(connection: Connection) -> None:
    """A table's lock is waited for only so long, for everybody else who wants the table waits behind."""
    seconds = SESSION_TIMEOUTS["lock_timeout"]
    connection.execute(text("SELECT set_config('lock_timeout', :seconds, true)"), {"seconds": seconds})


def _check(connection: Connection) -> None:
    if missing := guards.missing(connection):
        raise Unavailable(f"the migration would leave history unguarded: {', '.join(missing)} missing")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config
