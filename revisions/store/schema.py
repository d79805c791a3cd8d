"""Migrations up and down (Alembic), each ending with a look whether the guards of history stand (R-02, R-19)."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, text

from revisions.errors import Invalid, Unavailable
from revisions.store import guards
from revisions.store.database import Database
from revisions.store.sessions import SESSION_TIMEOUTS

_ONE_AT_A_TIME = 7_261_001
"""Key of the advisory lock that migrations hold, so that two replicas starting together do not migrate at once."""

_AS_LONG_AS_IT_TAKES = """
SELECT set_config(name, '0', true) FROM pg_settings
WHERE name IN ('lock_timeout', 'statement_timeout', 'transaction_timeout')
"""
"""For the migration before, and for each statement: a large table is not rewritten in half a minute."""


def upgrade(database: Database, version: str = "head") -> None:
    """Migrates to a version. Raises Invalid when there is none of that name, Unavailable when a guard is missing."""
    _migrate(database, version, command.upgrade)


def downgrade(database: Database, version: str) -> None:
    """Migrates back to a version (`base` removes everything)."""
    _migrate(database, version, command.downgrade)


def versions() -> list[str]:
    """All schema versions this release knows, oldest first."""
    return [script.revision for script in reversed(list(ScriptDirectory.from_config(_config()).walk_revisions()))]


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
