"""Commands that keep triggers from starting for some time: freezes and blackouts (S-13)."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli import output
from controller.cli.session import Cursor, Limit, Session, current_session

if TYPE_CHECKING:
    from controller.cli.client import Client

app = typer.Typer()
blackouts = typer.Typer(no_args_is_help=True, help="Blackouts: times in which nothing starts.")

HoldReason = Annotated[str, typer.Option("--reason", metavar="R", help="Reason, shown with every refused start.")]
EndReason = Annotated[
    str | None, typer.Option("--reason", metavar="R", help="Reason for the end; default the hold's own.")
]
HeldProject = Annotated[str | None, typer.Option("--project", metavar="P", help="Only this project; default all.")]


@app.command()
def freeze(
    context: typer.Context,
    reason: HoldReason,
    project: HeldProject = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="End the freeze at this time; default never.")
    ] = None,
) -> None:
    """Stop every start, scheduled or by hand, until the freeze ends. Repeat to change its end or reason."""
    from controller.cli.client import without_none

    session = current_session(context)
    with session.client() as client:
        answer = client.post("/freeze", without_none(project=project, until=until, reason=reason))
        _note_if_unmatched(client, project=project)
    _print_hold(session, answer)


@app.command()
def unfreeze(context: typer.Context, project: HeldProject = None, reason: EndReason = None) -> None:
    """Lift a freeze. Each trigger's catch-up policy decides what came due meanwhile."""
    from controller.cli.client import without_none

    session = current_session(context)
    with session.client() as client:
        answer = client.post("/unfreeze", without_none(project=project, reason=reason))
    _print_holds(session, answer)


@blackouts.command()
def add(
    context: typer.Context,
    until: Annotated[str, typer.Option(metavar="TIME", help="End of the blackout.")],
    reason: HoldReason,
    project: HeldProject = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Only triggers with this tag.")] = None,
    trigger: Annotated[str | None, typer.Option(metavar="T", help="Only this trigger.")] = None,
    begins: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Begin of the blackout; default, and if past: now.")
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(metavar="MODE", help="Handling of occurrences within it: drop, one, or defer; default drop."),
    ] = None,
) -> None:
    """Add a blackout: a time in which nothing starts by schedule."""
    from controller.cli.client import without_none

    session = current_session(context)
    body = without_none(project=project, tag=tag, trigger=trigger, until=until, mode=mode, reason=reason)
    if begins is not None:
        body["from"] = begins
    with session.client() as client:
        answer = client.post("/blackouts", body)
        _note_if_unmatched(client, project=project, tag=tag)
    _print_hold(session, answer)


@blackouts.command("list")
def list_holds(
    context: typer.Context,
    all: Annotated[bool, typer.Option("--all", help="Include those that have ended.")] = False,
    limit: Limit = None,
    cursor: Cursor = None,
) -> None:
    """List the blackouts and freezes in force or to come."""
    session = current_session(context)
    with session.client() as client:
        answer = client.list_items("/holds", limit, cursor, all=all)
    _print_holds(session, answer)


@blackouts.command()
def end(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Id of the blackout.")],
    reason: EndReason = None,
) -> None:
    """End a blackout now, or cancel one that has not begun."""
    from controller.cli import arguments
    from controller.cli.client import without_none

    session = current_session(context)
    path = arguments.blackout_path(id)
    with session.client() as client:
        answer = client.delete(path, without_none(reason=reason))
    _print_hold(session, answer)


def _print_hold(session: Session, answer: dict[str, Any]) -> None:
    names = ("from", "until", "mode", "reason", "owner")
    fields: output.Columns = {"id": "id", "kind": "kind", "state": _state, "holds": _scope}
    output.print_fields(session, answer, {**fields, **{name: name for name in names}})


def _print_holds(session: Session, answer: dict[str, Any]) -> None:
    names = ("from", "until", "mode", "owner", "reason")
    columns: output.Columns = {"ID": "id", "KIND": "kind", "STATE": _state, "HOLDS": _scope}
    output.print_list(session, answer, {**columns, **{name.upper(): name for name in names}})


def _note_if_unmatched(client: "Client", **filters: str | None) -> None:
    """Note that no trigger has this project or tag: it may be meant for later, or mistyped."""
    if any(filters.values()) and not client.get("/triggers", limit=1, **filters)["items"]:
        scope = " of ".join(f"{kind} {name}" for kind, name in reversed(filters.items()) if name)
        output.write_note(f"note: there is no trigger of {scope} yet")


def _scope(item: Any) -> str:
    """Return what a hold covers."""
    if item["trigger"]:
        return f"trigger {item['trigger']}"
    project = f"project {item['project']}" if item["project"] else ""
    tag = f"tag {item['tag']}" if item["tag"] else ""
    return " of ".join(part for part in (tag, project) if part) or "everything"


def _state(item: Any) -> str:
    return str(item["state"]).replace("_", " ")
