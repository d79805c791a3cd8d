"""Commands that change triggers: one at the revision it is read at, or all that bear a tag; back, and under a new name.

Whoever toggles or deletes by hand means the trigger as it stands, so its revision is read and printed; whoever rolls
back or renames has looked at the history and names the revision seen there.
"""

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from controller.cli import session as sessions
from controller.cli.session import ExpectedRevision, Reason, TriggerName
from controller.cli.triggers import at, changed

if TYPE_CHECKING:
    from controller.cli.client import Client

app = typer.Typer()

Chosen = Annotated[str | None, typer.Argument(metavar="T", help="project/domain/task/name; or name a --tag.")]
Tag = Annotated[str | None, typer.Option("--tag", help="All triggers that bear it, all of them or none.")]
SeenRevision = Annotated[
    int | None, typer.Option("--expected-revision", min=0, metavar="N", help="The revision you read; it must be named.")
]


@app.command()
def activate(
    context: typer.Context,
    trigger: Chosen = None,
    tag: Tag = None,
    reason: Reason = None,
    expected_revision: ExpectedRevision = None,
) -> None:
    """Resume a trigger, or all with a tag; what was due meanwhile does not fire."""
    _change(context, trigger, tag, "activate", expected_revision, reason=reason)


@app.command()
def deactivate(
    context: typer.Context,
    trigger: Chosen = None,
    tag: Tag = None,
    reason: Reason = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="When the pause ends by itself.")] = None,
    expected_revision: ExpectedRevision = None,
) -> None:
    """Pause a trigger, or all with a tag; runs that exist go on."""
    _change(context, trigger, tag, "deactivate", expected_revision, reason=reason, until=until)


@app.command()
def delete(
    context: typer.Context,
    trigger: Chosen = None,
    tag: Tag = None,
    reason: Reason = None,
    expected_revision: ExpectedRevision = None,
) -> None:
    """Delete a trigger, or all with a tag; the history stays."""
    _change(context, trigger, tag, "delete", expected_revision, reason=reason)


@app.command()
def rollback(
    context: typer.Context,
    trigger: TriggerName,
    to: Annotated[int, typer.Option(min=1, help="The revision to deploy again.")],
    reason: Reason = None,
    expected_revision: SeenRevision = None,
) -> None:
    """Deploy an earlier revision again, as a new one; a deleted trigger comes back."""
    _post(context, trigger, "rollback", expected_revision, to=to, reason=reason)


@app.command()
def rename(
    context: typer.Context,
    trigger: TriggerName,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The new name, without project, domain and task.")],
    reason: Reason = None,
    expected_revision: SeenRevision = None,
) -> None:
    """Give a trigger another name; history, watermark and runs stay."""
    _post(context, trigger, "rename", expected_revision, name=new, reason=reason)


def _change(
    context: typer.Context, trigger: str | None, tag: str | None, verb: str, revision: int | None, **said: str | None
) -> None:
    if (trigger is None) == (tag is None):
        raise typer.BadParameter("name either a trigger or a --tag")
    if tag is None:
        assert trigger is not None
        _change_one(context, trigger, verb, revision, said)
        return
    if revision is not None:
        raise typer.BadParameter("--expected-revision goes with a trigger, not with --tag")
    from controller.cli import screen

    session = sessions.of(context)
    with session.client() as client:
        answer = client.post(f"/triggers:{verb}", {"tag": tag} | _given(said))
    if not answer["items"]:
        screen.note(f"no trigger bears the tag {tag!r}")
    for item in answer["items"]:
        screen.warn(item, item["trigger"])
    columns = {"TRIGGER": "trigger", "OLD REVISION": "old_revision", "NEW REVISION": "new_revision"}
    screen.rows(session, answer, columns | {"CHANGED": "changed"})


def _change_one(context: typer.Context, trigger: str, verb: str, revision: int | None, said: dict[str, Any]) -> None:
    from controller.cli import files, screen

    session = sessions.of(context)
    path, body = files.trigger_path(trigger), _given(said)
    with session.client() as client:
        headers = at(revision if revision is not None else _read_revision(client, path))
        if verb == "delete":
            answer = client.delete(path, body, headers=headers)
        else:
            answer = client.post(f"{path}/{verb}", body, headers=headers)
    changed(session, answer)
    if verb == "deactivate" and not answer["changed"] and (until := answer["status"]["paused_until"]):
        screen.note(f"it was paused already, until {screen.cell(until)}: to pause it otherwise, activate it first")


def _post(context: typer.Context, trigger: str, verb: str, revision: int | None, **said: Any) -> None:
    from controller.cli import files

    session = sessions.of(context)
    path = files.trigger_path(trigger)
    with session.client() as client:
        answer = client.post(f"{path}/{verb}", _given(said), headers=at(revision) if revision is not None else None)
    changed(session, answer)


def _read_revision(client: "Client", path: str) -> int:
    from controller.cli import screen

    revision = cast(int, client.get(path)["revision"])
    screen.note(f"expected revision {revision}, read now")
    return revision


def _given(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if value is not None}
