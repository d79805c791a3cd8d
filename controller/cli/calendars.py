"""Commands for calendars of days off."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli import session as sessions
from controller.cli.session import ByProject, Cursor, ExpectedRevision, Limit, Session

if TYPE_CHECKING:
    from controller.cli.screen import Columns

app = typer.Typer(no_args_is_help=True, help="Calendars: days on which the triggers that name them do not fire.")

CalendarName = Annotated[str, typer.Argument(metavar="CALENDAR", help="project/name")]


def name_of(item: Any) -> str:
    return f"{item['project']}/{item['name']}"


@app.command()
def deploy(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file with one Calendar; - is standard input.")],
    expected_revision: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The revision you read; left out, the calendar must be new.")
    ] = None,
) -> None:
    """Create a calendar, or update the revision you read; the triggers that name it are planned anew."""
    from controller.cli import files
    from controller.cli.triggers import at
    from revisions.spec.calendar import CalendarManifest

    document = files.one(
        file, "Calendar", "register tasks with `triggerctl task register`, `triggerctl deploy` triggers"
    )
    headers = {"If-None-Match": "*"} if expected_revision is None else at(expected_revision)
    session = sessions.of(context)
    with files.about(files.called(file)):
        path = files.calendar_path(str(CalendarManifest.read(document).key))
        with session.client() as client:
            answer = client.put(path, document, headers=headers)
    _changed(session, answer)


@app.command("list")
def listing(context: typer.Context, project: ByProject = None, limit: Limit = None, cursor: Cursor = None) -> None:
    """List the calendars that are not deleted."""
    from controller.cli import screen

    session = sessions.of(context)
    with session.client() as client:
        answer = client.items("/calendars", limit, cursor, project=project)
    columns: Columns = {"CALENDAR": name_of, "REVISION": "revision", "OWNER": "spec.owner", "DATES": _many_dates}
    screen.rows(session, answer, {**columns, "UNTIL": _of_spec("until"), "REASON": _of_spec("reason")})


@app.command()
def show(context: typer.Context, calendar: CalendarName) -> None:
    """Show a calendar as it stands."""
    from controller.cli import files, screen

    session = sessions.of(context)
    path = files.calendar_path(calendar)
    with session.client() as client:
        answer = client.get(path)
    screen.facts(session, answer, {**_FACTS, "changed at": "changed_at", "changed by": "changed_by", "spec": "spec"})


@app.command()
def history(context: typer.Context, calendar: CalendarName, limit: Limit = None, cursor: Cursor = None) -> None:
    """List a calendar's revisions, newest first."""
    from controller.cli import files, screen

    session = sessions.of(context)
    path = files.calendar_path(calendar)
    with session.client() as client:
        answer = client.items(f"{path}/revisions", limit, cursor)
    columns = ("revision", "action", "actor", "at")
    screen.rows(session, answer, {**{name.upper(): name for name in columns}, "DATES": _many_dates})


@app.command()
def delete(context: typer.Context, calendar: CalendarName, expected_revision: ExpectedRevision = None) -> None:
    """Delete a calendar that no trigger names; the history stays."""
    from controller.cli import files, screen
    from controller.cli.triggers import at

    session = sessions.of(context)
    path = files.calendar_path(calendar)
    with session.client() as client:
        if expected_revision is None:
            expected_revision = client.get(path)["revision"]
            screen.note(f"expected revision {expected_revision}, read now")
        answer = client.delete(path, headers=at(expected_revision))
    _changed(session, answer)


def _changed(session: Session, answer: dict[str, Any]) -> None:
    from controller.cli import screen

    screen.facts(session, answer, {**_FACTS, "changed": "changed", "dates": _many_dates})


def _of_spec(name: str) -> Callable[[Any], Any]:
    return lambda item: item["spec"].get(name)


def _many_dates(item: Any) -> int:
    """How many entries it has; a range is one."""
    return len(item["spec"]["dates"])


_FACTS: "Columns" = {
    "calendar": name_of,
    "revision": "revision",
    "deleted": lambda item: item["deleted"] or None,
}
