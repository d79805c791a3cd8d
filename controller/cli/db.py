"""Commands for the database itself, its schema above all; they need no application, for it needs them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli import session as sessions
from controller.cli.session import Session

if TYPE_CHECKING:
    from revisions.store.database import Database

app = typer.Typer(no_args_is_help=True, help="The database's schema.")


@app.command()
def upgrade(
    context: typer.Context,
    version: Annotated[str, typer.Argument(help="The schema version to go to; left out, the newest.")] = "head",
) -> None:
    """Create the database (SQLite) and bring its schema up to date."""
    from revisions.store import schema

    session = _direct(context)
    with _database(session, create=True) as database:
        schema.upgrade(database, version)
        _current(session, database)


@app.command()
def downgrade(
    context: typer.Context,
    version: Annotated[str, typer.Argument(help="The schema version to go back to; `base` removes everything.")],
) -> None:
    """Take the schema back; data of later versions is lost."""
    from revisions.store import schema

    session = _direct(context)
    with _database(session) as database:
        schema.downgrade(database, version)
        _current(session, database)


@app.command()
def current(context: typer.Context) -> None:
    """Show the schema version that the database has, the one this release works with, and which installation it is."""
    session = _direct(context)
    with _database(session) as database:
        _current(session, database)


@app.command()
def separate(context: typer.Context) -> None:
    """Make a copy of a database an installation of its own, before anything runs on it."""
    from reconcile.loop.restore import separate_installation

    session = _direct(context)
    with _database(session) as database:
        database.check_schema()
        separate_installation(database, session.settings().resync_interval)
        _current(session, database)


def _direct(context: typer.Context) -> Session:
    session = sessions.of(context)
    if session.server:
        raise typer.BadParameter("db works on a database: pass --database-url, not --server")
    return session


def _database(session: Session, *, create: bool = False) -> "Database":
    from revisions.store.database import Database

    return Database(session.settings().database_url, create=create, pool_size=1)


def _schema(answer: Mapping[str, Any]) -> str:
    return answer["schema"] or "none: `triggerctl db upgrade` makes it"


def _current(session: Session, database: "Database") -> None:
    from controller.cli import screen
    from revisions.store import installations
    from revisions.store.tables import SCHEMA

    found = database.schema()
    answer = {"database": str(database), "schema": found, "expected": SCHEMA, "installation": None}
    if found and found >= SCHEMA:
        with database.read() as connection:
            answer["installation"] = installations.current(connection)
    screen.facts(session, answer, {**{name: name for name in answer}, "schema": _schema})
