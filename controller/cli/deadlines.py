"""The command for deadlines that were missed."""

import typer

from controller.cli import session as sessions
from controller.cli.session import Cursor, Limit, TriggerName

app = typer.Typer()


@app.command()
def deadlines(context: typer.Context, trigger: TriggerName, limit: Limit = None, cursor: Cursor = None) -> None:
    """List the deadlines of a trigger at which no run had succeeded, newest first."""
    from controller.cli import files, screen

    session = sessions.of(context)
    path = files.trigger_path(trigger)
    with session.client() as client:
        answer = client.items(f"{path}/deadlines", limit, cursor)
    screen.rows(
        session,
        answer,
        {
            "DUE AT": "due_at",
            "KIND": "kind",
            "SCHEDULED AT": "scheduled_at",
            "OCCURRENCE": "occurrence_id",
            "REVISION": "revision",
            "NOTICED AT": "noticed_at",
        },
    )
