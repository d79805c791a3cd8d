"""Commands that keep things from starting for a while: freezes and blackouts (S-13)."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli import session as sessions
from controller.cli.session import Cursor, Limit, Session

if TYPE_CHECKING:
    from controller.cli.client import Client
    from controller.cli.screen import Columns

app = typer.Typer()
blackouts = typer.Typer(no_args_is_help=True, help="Blackouts: times in which nothing starts.")

Why = Annotated[str, typer.Option("--reason", metavar="R", help="Why nothing may start; everybody sees it.")]
WhyEnded = Annotated[str | None, typer.Option("--reason", metavar="R", help="Why it ends; left out, as it was.")]
OfProject = Annotated[
    str | None, typer.Option("--project", metavar="P", help="Only this project; left out, everything.")
]


@app.command()
def freeze(
    context: typer.Context,
    reason: Why,
    project: OfProject = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="When it ends by itself; left out, never.")] = None,
) -> None:
    """Stop every start, of schedules and by hand, until it ends or is lifted; a freeze in force is changed."""
    session = sessions.of(context)
    with session.client() as client:
        answer = client.post("/freeze", _given(project=project, until=until, reason=reason))
        _said_if_nobody(client, project=project)
    _told(session, answer)


@app.command()
def unfreeze(context: typer.Context, project: OfProject = None, reason: WhyEnded = None) -> None:
    """Lift a freeze; what came due meanwhile is decided by each trigger's catch-up policy."""
    session = sessions.of(context)
    with session.client() as client:
        answer = client.post("/unfreeze", _given(project=project, reason=reason))
    _listed(session, answer)


@blackouts.command()
def add(
    context: typer.Context,
    until: Annotated[str, typer.Option(metavar="TIME", help="When it ends.")],
    reason: Why,
    project: OfProject = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Only the triggers that bear it.")] = None,
    trigger: Annotated[str | None, typer.Option(metavar="T", help="Only this trigger.")] = None,
    begins: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="When it begins; left out, or past, now.")
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(metavar="MODE", help="What becomes of what falls into it: drop (left out), one, or defer."),
    ] = None,
) -> None:
    """Announce a time in which nothing starts by schedule."""
    session = sessions.of(context)
    said = {"from": begins, "until": until, "mode": mode, "reason": reason}
    with session.client() as client:
        answer = client.post("/blackouts", _given(project=project, tag=tag, trigger=trigger, **said))
        _said_if_nobody(client, project=project, tag=tag)
    _told(session, answer)


@blackouts.command("list")
def listing(
    context: typer.Context,
    all: Annotated[bool, typer.Option("--all", help="Also what is over.")] = False,
    limit: Limit = None,
    cursor: Cursor = None,
) -> None:
    """List the blackouts, and the freezes, that are in force or to come."""
    session = sessions.of(context)
    with session.client() as client:
        answer = client.items("/holds", limit, cursor, all=all)
    _listed(session, answer)


@blackouts.command()
def end(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The blackout's id.")],
    reason: WhyEnded = None,
) -> None:
    """End a blackout now, or take one back that is to come."""
    from controller.cli import files

    session = sessions.of(context)
    path = files.blackout_path(id)
    with session.client() as client:
        answer = client.delete(path, _given(reason=reason))
    _told(session, answer)


def _told(session: Session, answer: dict[str, Any]) -> None:
    from controller.cli import screen

    names = ("from", "until", "mode", "reason", "owner")
    first: Columns = {"id": "id", "kind": "kind", "state": _state, "holds": _whom}
    screen.facts(session, answer, {**first, **{name: name for name in names}})


def _listed(session: Session, answer: dict[str, Any]) -> None:
    from controller.cli import screen

    names = ("from", "until", "mode", "owner", "reason")
    first: Columns = {"ID": "id", "KIND": "kind", "STATE": _state, "HOLDS": _whom}
    screen.rows(session, answer, {**first, **{name.upper(): name for name in names}})


def _said_if_nobody(client: "Client", **whom: str | None) -> None:
    """A name that nothing bears may be meant for later, and may be mistyped."""
    from controller.cli import screen

    if any(whom.values()) and not client.get("/triggers", limit=1, **whom)["items"]:
        named = " of ".join(f"{kind} {name}" for kind, name in reversed(whom.items()) if name)
        screen.note(f"note: there is no trigger of {named} yet")


def _whom(item: Any) -> str:
    """For whom it is, in words."""
    if item["trigger"]:
        return f"trigger {item['trigger']}"
    project = f"project {item['project']}" if item["project"] else ""
    tag = f"tag {item['tag']}" if item["tag"] else ""
    return " of ".join(part for part in (tag, project) if part) or "everything"


def _state(item: Any) -> str:
    return str(item["state"]).replace("_", " ")


def _given(**said: str | None) -> dict[str, str]:
    return {name: value for name, value in said.items() if value is not None}
