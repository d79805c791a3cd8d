"""Commands for calendars of days off."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from controller.cli import output
from controller.cli.session import ByProject, Cursor, ExpectedRevision, Limit, Session, current_session

app = typer.Typer(no_args_is_help=True, help="Calendars: days on which the triggers that name them do not fire.")

CalendarName = Annotated[str, typer.Argument(metavar="CALENDAR", help="Calendar: project/name.")]
_OTHER_KINDS = "register tasks with `triggerctl task register`, `triggerctl deploy` triggers"


@app.command()
def deploy(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="File with one Calendar; - is standard input.")],
    expected_revision: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Revision you read; without it the calendar must be new.")
    ] = None,
) -> None:
    """Deploy one calendar from a manifest. Triggers that name it are rescheduled at once."""
    from controller.cli import arguments
    from controller.cli.client import if_match_or_new
    from revisions.spec.manifest import CalendarManifest

    document = arguments.read_manifest(file, "Calendar", _OTHER_KINDS)
    session = current_session(context)
    with arguments.errors_name_file(arguments.display_name(file)):
        path = arguments.calendar_path(str(CalendarManifest.read(document).key))
        with session.client() as client:
            answer = client.put(path, document, headers=if_match_or_new(expected_revision))
    _print_changed_calendar(session, answer)


@app.command("list")
def list_calendars(
    context: typer.Context, project: ByProject = None, limit: Limit = None, cursor: Cursor = None
) -> None:
    """List calendars. Deleted ones are left out."""
    session = current_session(context)
    with session.client() as client:
        answer = client.list_items("/calendars", limit, cursor, project=project)
    output.print_list(
        session,
        answer,
        {
            "CALENDAR": _calendar_name,
            "REVISION": "revision",
            "OWNER": "spec.owner",
            "DATES": _date_count,
            "UNTIL": _spec_field("until"),
            "REASON": _spec_field("reason"),
        },
    )


@app.command()
def show(context: typer.Context, calendar: CalendarName) -> None:
    """Show a calendar."""
    from controller.cli import arguments

    session = current_session(context)
    path = arguments.calendar_path(calendar)
    with session.client() as client:
        answer = client.get(path)
    change_fields = {"changed at": "changed_at", "changed by": "changed_by", "spec": "spec"}
    output.print_fields(session, answer, {**_FIELDS, **change_fields})


@app.command()
def history(context: typer.Context, calendar: CalendarName, limit: Limit = None, cursor: Cursor = None) -> None:
    """List the revisions of a calendar, newest first."""
    from controller.cli import arguments

    session = current_session(context)
    path = arguments.calendar_path(calendar)
    with session.client() as client:
        answer = client.list_items(f"{path}/revisions", limit, cursor)
    columns = ("revision", "action", "actor", "at")
    output.print_list(session, answer, {**{name.upper(): name for name in columns}, "DATES": _date_count})


@app.command()
def delete(context: typer.Context, calendar: CalendarName, expected_revision: ExpectedRevision = None) -> None:
    """Delete a calendar that no trigger names. The history is kept."""
    from controller.cli import arguments
    from controller.cli.client import if_match

    session = current_session(context)
    path = arguments.calendar_path(calendar)
    with session.client() as client:
        if expected_revision is None:
            expected_revision = int(client.get(path)["revision"])
            output.write_note(f"expected revision {expected_revision}, read now")
        answer = client.delete(path, headers=if_match(expected_revision))
    _print_changed_calendar(session, answer)


def _print_changed_calendar(session: Session, answer: dict[str, Any]) -> None:
    output.print_fields(session, answer, {**_FIELDS, "changed": "changed", "dates": _date_count})


def _calendar_name(item: Any) -> str:
    return f"{item['project']}/{item['name']}"


def _spec_field(name: str) -> Callable[[Any], Any]:
    """Return a column of an optional field of the spec."""
    return lambda item: item["spec"].get(name)


def _date_count(item: Any) -> int:
    """Return the number of entries; a range counts as one."""
    return len(item["spec"]["dates"])


_FIELDS: output.Columns = {
    "calendar": _calendar_name,
    "revision": "revision",
    "deleted": lambda item: item["deleted"] or None,
}
