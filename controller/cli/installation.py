"""Commands that run and check an installation, and manage its database schema.

`up` and `db` work on the database directly: they come before there is an application to ask.
"""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli import output
from controller.cli.session import OutputFormat, Session, current_session
from controller.settings import PARTS

if TYPE_CHECKING:
    from revisions.store.database import Database

app = typer.Typer()
schema_commands = typer.Typer(no_args_is_help=True, help="The database schema.")

_STYLES: Mapping[str, str] = {"ok": "green", "warning": "yellow", "fault": "bold red"}


class UpBaseline(StrEnum):
    """Values of `up --baseline`; the member names are what users type."""

    now = "now"


@app.command()
def up(
    context: typer.Context,
    without: Annotated[str, typer.Option(metavar="PARTS", help=f"Leave out some of {','.join(PARTS)}.")] = "",
    listen: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Address of the API and web page.")] = None,
    baseline: Annotated[
        UpBaseline | None, typer.Option(help="After a restore: record the fires of the lost time, and start none.")
    ] = None,
) -> None:
    """Run the controller (API, web page, loop and runner in one process) until SIGTERM or Ctrl-C."""
    session = current_session(context)
    if session.server:
        raise typer.BadParameter("up works on a database: pass --database-url, not --server")
    left_out = frozenset(part.strip() for part in without.split(",") if part.strip())
    if unknown := sorted(left_out - set(PARTS)):
        raise typer.BadParameter(f"{', '.join(unknown)} is no part; there are {', '.join(PARTS)}")
    if left_out == set(PARTS) and baseline is None:
        raise typer.BadParameter("nothing would run: leave out three parts at most")
    settings = session.settings(listen=listen)
    from controller.serve import run

    run(settings, without=left_out, is_restored=baseline is not None)


@app.command()
def doctor(context: typer.Context) -> None:
    """Check the whole installation and report problems. Exits with 1 on a fault."""
    from controller.errors import Exit

    session = current_session(context)
    with session.client() as client:
        answer = client.get("/doctor")
    if session.output is OutputFormat.table:
        _print_checks(answer["items"])
    else:
        output.print_document(session, answer)
    if not answer["ok"]:
        raise typer.Exit(Exit.FAILED)


@schema_commands.command()
def upgrade(
    context: typer.Context,
    version: Annotated[str, typer.Argument(help="Schema version to upgrade to; default the newest.")] = "head",
) -> None:
    """Create the database (SQLite only) and upgrade its schema."""
    from revisions.store import schema

    session = _database_session(context)
    with _open_database(session, create=True) as database:
        schema.upgrade(database, version)
        _print_schema(session, database)


@schema_commands.command()
def downgrade(
    context: typer.Context,
    version: Annotated[str, typer.Argument(help="Schema version to go back to; `base` removes everything.")],
) -> None:
    """Downgrade the schema. Data of later versions is lost."""
    from revisions.store import schema

    session = _database_session(context)
    with _open_database(session) as database:
        schema.downgrade(database, version)
        _print_schema(session, database)


@schema_commands.command()
def current(context: typer.Context) -> None:
    """Show the schema version, the version that this release expects, and the installation's id."""
    session = _database_session(context)
    with _open_database(session) as database:
        _print_schema(session, database)


@schema_commands.command()
def separate(context: typer.Context) -> None:
    """Turn a copied database into an installation of its own, before a controller runs on it."""
    from reconcile.loop.restore import separate_installation

    session = _database_session(context)
    with _open_database(session) as database:
        database.check_schema()
        separate_installation(database, session.settings().resync_interval)
        _print_schema(session, database)


def _print_checks(checks: list[dict[str, Any]]) -> None:
    """Print a line for each check, and below it its hint."""
    width = max(len(check["name"]) for check in checks)
    level_width = max(map(len, _STYLES))
    for check in checks:
        lead = f"{check['level'].ljust(level_width)}  {check['name'].ljust(width)} "
        output.print_line(check["detail"], sign=lead, style=_STYLES[check["level"]])
        if check["hint"] not in check["detail"]:
            output.print_line(check["hint"], "dim", indent=len(lead) + 1)
    counts = Counter(check["level"] for check in checks)
    totals = [output.count_of(counts[level], level) for level in ("fault", "warning") if counts[level]]
    output.print_line("")
    output.print_line(f"{', '.join(totals)}." if totals else "All is well.", "bold")


def _database_session(context: typer.Context) -> Session:
    session = current_session(context)
    if session.server:
        raise typer.BadParameter("db works on a database: pass --database-url, not --server")
    return session


def _open_database(session: Session, *, create: bool = False) -> "Database":
    from revisions.store.database import Database

    return Database(session.settings().database_url, create=create, pool_size=1)


def _print_schema(session: Session, database: "Database") -> None:
    from revisions.store import installations
    from revisions.store.tables import SCHEMA

    version = database.schema()
    answer = {"database": str(database), "schema": version, "expected": SCHEMA, "installation": None}
    if version and version >= SCHEMA:
        with database.read() as connection:
            answer["installation"] = installations.current(connection)
    output.print_fields(session, answer, {**{name: name for name in answer}, "schema": _schema_version})


def _schema_version(answer: Mapping[str, Any]) -> str:
    return answer["schema"] or "none: `triggerctl db upgrade` creates it"
