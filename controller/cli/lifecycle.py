"""Commands that activate, deactivate, delete, roll back and rename triggers.

Whoever activates, deactivates or deletes by hand means the trigger as it is, so the expected revision is read if it is
not given. Whoever rolls back or renames has looked at the history and names the revision seen there.
"""

from typing import Annotated, Any

import typer

from controller.cli import output
from controller.cli.session import ExpectedRevision, Reason, TriggerName, TriggerOrTag, current_session
from controller.cli.triggers import print_changed_trigger

app = typer.Typer()

Tag = Annotated[str | None, typer.Option("--tag", help="Change every trigger with this tag, all of them or none.")]
RequiredRevision = Annotated[
    int | None, typer.Option("--expected-revision", min=0, metavar="N", help="Revision you read; required.")
]


@app.command()
def activate(
    context: typer.Context,
    trigger: TriggerOrTag = None,
    tag: Tag = None,
    reason: Reason = None,
    expected_revision: ExpectedRevision = None,
) -> None:
    """Resume a trigger, or all with a tag. Occurrences due during the pause do not fire."""
    _change(context, trigger, tag, "activate", expected_revision, {"reason": reason})


@app.command()
def deactivate(
    context: typer.Context,
    trigger: TriggerOrTag = None,
    tag: Tag = None,
    reason: Reason = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Resume by itself at this time.")] = None,
    expected_revision: ExpectedRevision = None,
) -> None:
    """Pause a trigger, or all with a tag. Existing runs continue."""
    _change(context, trigger, tag, "deactivate", expected_revision, {"reason": reason, "until": until})


@app.command()
def delete(
    context: typer.Context,
    trigger: TriggerOrTag = None,
    tag: Tag = None,
    reason: Reason = None,
    expected_revision: ExpectedRevision = None,
) -> None:
    """Delete a trigger, or all with a tag. The history is kept."""
    _change(context, trigger, tag, "delete", expected_revision, {"reason": reason})


@app.command()
def rollback(
    context: typer.Context,
    trigger: TriggerName,
    to: Annotated[int, typer.Option(min=1, help="Revision to deploy again.")],
    reason: Reason = None,
    expected_revision: RequiredRevision = None,
) -> None:
    """Deploy an earlier revision again, as a new one. A deleted trigger comes back."""
    _post(context, trigger, "rollback", expected_revision, {"to": to, "reason": reason})


@app.command()
def rename(
    context: typer.Context,
    trigger: TriggerName,
    new: Annotated[str, typer.Argument(metavar="NEW", help="New name, without project, domain and task.")],
    reason: Reason = None,
    expected_revision: RequiredRevision = None,
) -> None:
    """Rename a trigger. History, watermark and runs are kept."""
    _post(context, trigger, "rename", expected_revision, {"name": new, "reason": reason})


def _change(
    context: typer.Context,
    trigger: str | None,
    tag: str | None,
    action: str,
    revision: int | None,
    fields: dict[str, str | None],
) -> None:
    if (trigger is None) == (tag is None):
        raise typer.BadParameter("name either a trigger or a --tag")
    if trigger is not None:
        _change_trigger(context, trigger, action, revision, fields)
        return
    if revision is not None:
        raise typer.BadParameter("--expected-revision goes with a trigger, not with --tag")
    from controller.cli.client import without_none

    session = current_session(context)
    with session.client() as client:
        answer = client.post(f"/triggers:{action}", without_none(tag=tag, **fields))
    if not answer["items"]:
        output.write_note(f"no trigger has the tag {tag!r}")
    for item in answer["items"]:
        output.write_warnings(item, item["trigger"])
    columns = {"TRIGGER": "trigger", "OLD REVISION": "old_revision", "NEW REVISION": "new_revision"}
    output.print_list(session, answer, {**columns, "CHANGED": "changed"})


def _change_trigger(
    context: typer.Context, trigger: str, action: str, revision: int | None, fields: dict[str, str | None]
) -> None:
    from controller.cli import arguments
    from controller.cli.client import if_match, without_none

    session = current_session(context)
    path, body = arguments.trigger_path(trigger), without_none(**fields)
    with session.client() as client:
        if revision is None:
            revision = int(client.get(path)["revision"])
            output.write_note(f"expected revision {revision}, read now")
        if action == "delete":
            answer = client.delete(path, body, headers=if_match(revision))
        else:
            answer = client.post(f"{path}/{action}", body, headers=if_match(revision))
    print_changed_trigger(session, answer)
    if action == "deactivate" and not answer["changed"] and (until := answer["status"]["paused_until"]):
        end = output.format_cell(until)
        output.write_note(f"it was paused already, until {end}; to pause it differently, activate it first")


def _post(context: typer.Context, trigger: str, action: str, revision: int | None, fields: dict[str, Any]) -> None:
    from controller.cli import arguments
    from controller.cli.client import if_match, without_none

    session = current_session(context)
    path = arguments.trigger_path(trigger)
    headers = if_match(revision) if revision is not None else None
    with session.client() as client:
        answer = client.post(f"{path}/{action}", without_none(**fields), headers=headers)
    print_changed_trigger(session, answer)
