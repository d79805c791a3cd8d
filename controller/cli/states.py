"""The command for the state that a trigger's runs hand on."""

import json
from typing import Annotated, Any

import typer

from controller.cli import session as sessions
from controller.cli.session import Output, Session, TriggerName

app = typer.Typer()


@app.command()
def state(
    context: typer.Context,
    trigger: TriggerName,
    set_from: Annotated[
        str | None,
        typer.Option("--set", metavar="FILE", help="Set it to the JSON or YAML of a file; - is standard input."),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove it, so that the next run finds none.")] = False,
) -> None:
    """Show the state that the runs of a trigger hand on; or set it, or remove it."""
    if clear and set_from is not None:
        raise typer.BadParameter("--set gives a state, --clear removes it: name one of them")
    from controller.cli import files

    session = sessions.of(context)
    path = f"{files.trigger_path(trigger)}/state"
    method, value = ("DELETE" if clear else "GET"), None
    if set_from is not None:
        method, value = "PUT", _value(set_from)
    with session.client() as client:
        _shown(session, client.request(method, path, value).json())


def _value(name: str) -> Any:
    """The one value in a file. Raises Invalid, and Malformed."""
    from controller.cli import files
    from revisions.errors import Invalid

    found = files.read(name)
    if len(found) != 1:
        hint = "write one JSON or YAML document" if found else "`triggerctl state T --clear` removes a state"
        raise Invalid.at(files.called(name), f"holds {len(found)} values; one is taken", hint)
    return found[0]


def _shown(session: Session, answer: dict[str, Any]) -> None:
    from controller.cli import screen

    if session.output is not Output.table:
        screen.document(session, answer)
        return
    names = {"trigger": "trigger", "changed at": "changed_at", "changed by": "changed_by", "run": "run_id"}
    screen.facts(session, answer, names)
    if answer["state"] is None:
        screen.line("There is no state: the next run finds null.")
    else:
        screen.line(f"state: {json.dumps(answer['state'], ensure_ascii=False)}")
