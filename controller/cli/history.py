"""Commands for what a trigger was: its revisions, and what differs between two of them."""

from typing import Annotated, Any

import typer

from controller.cli import session as sessions
from controller.cli.session import Cursor, Limit, TriggerName

app = typer.Typer()

_COLOURS = {"added": "green", "removed": "red", "changed": "yellow"}


@app.command()
def history(context: typer.Context, trigger: TriggerName, limit: Limit = None, cursor: Cursor = None) -> None:
    """List a trigger's revisions, newest first."""
    from controller.cli import files, screen

    session = sessions.of(context)
    path = files.trigger_path(trigger)
    with session.client() as client:
        answer = client.items(f"{path}/revisions", limit, cursor)
    columns = ("revision", "action", "active", "actor", "at", "reason", "until")
    screen.rows(session, answer, {name.upper(): name for name in columns})


@app.command()
def diff(
    context: typer.Context,
    trigger: TriggerName,
    a: Annotated[int, typer.Argument(metavar="A", min=1, help="A revision.")],
    b: Annotated[int, typer.Argument(metavar="B", min=1, help="Another one.")],
) -> None:
    """Show what differs between two revisions, by path."""
    from controller.cli import files, screen

    session = sessions.of(context)
    path = files.trigger_path(trigger)
    with session.client() as client:
        answer = client.get(f"{path}/diff", **{"from": a, "to": b})
    found = answer["differences"]
    if session.output is not sessions.Output.table:
        screen.document(session, answer)
    elif not found:
        screen.write("no difference\n")
    else:
        lines = [[one["path"], one["kind"], _value(one, "before"), _value(one, "after")] for one in found]
        screen.table([["PATH", "KIND", str(a), str(b)], *lines], [_COLOURS[one["kind"]] for one in found])


def _value(difference: Any, side: str) -> str:
    """One side as JSON, so that a text `1` is not a number; `-` where there is nothing."""
    import json

    from controller.cli.screen import printable

    absent = {"added": "before", "removed": "after"}.get(difference["kind"])
    return "-" if side == absent else printable(json.dumps(difference[side], ensure_ascii=False))
