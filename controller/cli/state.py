"""Command for the state that the runs of a trigger hand on to the next."""

import json
from typing import Annotated, Any

import typer

from controller.cli import output
from controller.cli.session import OutputFormat, Session, TriggerName, current_session

app = typer.Typer()


@app.command()
def state(
    context: typer.Context,
    trigger: TriggerName,
    set_from: Annotated[
        str | None,
        typer.Option("--set", metavar="FILE", help="Set it to the JSON or YAML value in a file; - is standard input."),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove it, so that the next run finds none.")] = False,
) -> None:
    """Show, set or remove the state that the runs of a trigger hand on."""
    if clear and set_from is not None:
        raise typer.BadParameter("--set gives a state, --clear removes it: name one of them")
    from controller.cli import arguments

    session = current_session(context)
    path = f"{arguments.trigger_path(trigger)}/state"
    method, value = ("DELETE" if clear else "GET"), None
    if set_from is not None:
        method, value = "PUT", _read_value(set_from)
    with session.client() as client:
        _print_state(session, client.request(method, path, value).json())


def _read_value(file: str) -> Any:
    """Return the only value in a file. Raises Invalid and Malformed."""
    from controller.cli import arguments
    from revisions.errors import Invalid

    values = arguments.read_documents(file)
    if len(values) != 1:
        hint = "write one JSON or YAML document" if values else "`triggerctl state T --clear` removes a state"
        raise Invalid.at(arguments.display_name(file), f"holds {len(values)} values; one is taken", hint)
    return values[0]


def _print_state(session: Session, answer: dict[str, Any]) -> None:
    if session.output is not OutputFormat.table:
        output.print_document(session, answer)
        return
    fields = {"trigger": "trigger", "changed at": "changed_at", "changed by": "changed_by", "run": "run_id"}
    output.print_fields(session, answer, fields)
    if answer["state"] is None:
        output.print_line("There is no state: the next run finds null.")
    else:
        output.print_line(f"state: {json.dumps(answer['state'], ensure_ascii=False)}")
