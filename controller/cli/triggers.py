"""Commands for triggers: deploying, reading, changing, firing."""

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from controller.cli import session as sessions
from controller.cli.session import Cursor, ExpectedRevision, Limit, Reason, Session, TriggerName

if TYPE_CHECKING:
    from controller.cli.client import Client

app = typer.Typer()


def name_of(item: Any) -> str:
    return "/".join(item[part] for part in ("project", "domain", "task", "name"))


@app.command()
def deploy(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file with one Trigger; - is standard input.")],
    expected_revision: Annotated[
        int | None, typer.Option(min=0, help="The revision you read; left out, the trigger must be new.")
    ] = None,
    idempotency_key: Annotated[str | None, typer.Option(help="By which a retry is recognised.")] = None,
) -> None:
    """Create a trigger, or update the revision you read."""
    from controller.cli import files

    document = files.one(file, "Trigger", "register tasks with `triggerctl task register`, deploy triggers one by one")
    headers = {"If-None-Match": "*"} if expected_revision is None else _match(expected_revision)
    if idempotency_key is not None:
        headers["Idempotency-Key"] = idempotency_key
    session = sessions.of(context)
    with files.about(files.called(file)):
        path = _path_of(document)
        with session.client() as client:
            answer = client.put(path, document, headers=headers)
    _changed(session, answer)


@app.command("list")
def listing(
    context: typer.Context,
    project: Annotated[str | None, typer.Option()] = None,
    domain: Annotated[str | None, typer.Option()] = None,
    task: Annotated[str | None, typer.Option()] = None,
    tag: Annotated[str | None, typer.Option()] = None,
    active: Annotated[bool | None, typer.Option("--active/--inactive")] = None,
    limit: Limit = None,
    cursor: Cursor = None,
) -> None:
    """List the triggers that are not deleted."""
    from controller.cli import screen

    session = sessions.of(context)
    wanted = {"project": project, "domain": domain, "task": task, "tag": tag, "active": active}
    with session.client() as client:
        answer = client.items("/triggers", limit, cursor, **wanted)
    screen.rows(
        session,
        answer,
        {
            "TRIGGER": name_of,
            "REVISION": "revision",
            "ACTIVE": "active",
            "NEXT FIRE": "status.next_fire_at",
            "LAST FIRE": "status.last_fired_at",
            "LAST OUTCOME": "status.last_outcome",
            "LAST ERROR": "status.last_error",
        },
    )


@app.command()
def show(
    context: typer.Context,
    trigger: TriggerName,
    revision: Annotated[int | None, typer.Option(min=1, help="As it was at this revision.")] = None,
) -> None:
    """Show a trigger, or one of its revisions."""
    from controller.cli import files, screen

    session = sessions.of(context)
    path = files.trigger_path(trigger)
    with session.client() as client:
        answer = client.get(path if revision is None else f"{path}/revisions/{revision}")
    screen.facts(session, answer)


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
def activate(
    context: typer.Context,
    trigger: TriggerName,
    reason: Reason = None,
    expected_revision: ExpectedRevision = None,
) -> None:
    """Resume a trigger; what was due meanwhile does not fire."""
    _change(context, trigger, "activate", expected_revision, {"reason": reason})


@app.command()
def deactivate(
    context: typer.Context,
    trigger: TriggerName,
    reason: Reason = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="When the pause ends by itself.")] = None,
    expected_revision: ExpectedRevision = None,
) -> None:
    """Pause a trigger; runs that exist go on."""
    _change(context, trigger, "deactivate", expected_revision, {"reason": reason, "until": until})


@app.command()
def delete(
    context: typer.Context,
    trigger: TriggerName,
    reason: Reason = None,
    expected_revision: ExpectedRevision = None,
) -> None:
    """Delete a trigger; its history stays."""
    _change(context, trigger, None, expected_revision, {"reason": reason})


def _change(
    context: typer.Context, trigger: str, verb: str | None, revision: int | None, said: dict[str, str | None]
) -> None:
    from controller.cli import files

    session = sessions.of(context)
    path = files.trigger_path(trigger)
    body = {name: text for name, text in said.items() if text is not None}
    with session.client() as client:
        headers = _match(revision if revision is not None else _read_revision(client, path))
        if verb:
            answer = client.post(f"{path}/{verb}", body, headers=headers)
        else:
            answer = client.delete(path, body, headers=headers)
    _changed(session, answer)


def _read_revision(client: "Client", path: str) -> int:
    from controller.cli import screen

    revision = cast(int, client.get(path)["revision"])
    screen.note(f"expected revision {revision}, read now")
    return revision


def _match(revision: int) -> dict[str, str]:
    return {"If-Match": f'"{revision}"'}


def _path_of(document: Any) -> str:
    """Where the metadata says the trigger is; a manifest that does not say so is refused with all its faults."""
    from controller.cli import files

    metadata = document.get("metadata")
    names = [metadata.get(part) for part in ("project", "domain", "task", "name")] if isinstance(metadata, dict) else []
    if len(names) == 4 and all(isinstance(name, str) and name and "/" not in name for name in names):
        return files.trigger_path("/".join(cast(list[str], names)))
    from revisions.manifests import Trigger

    return files.trigger_path(str(Trigger.read(document).key))


def _changed(session: Session, answer: dict[str, Any]) -> None:
    from controller.cli import screen

    screen.facts(
        session,
        answer,
        {
            "trigger": name_of,
            "revision": "revision",
            "changed": "changed",
            "active": "active",
            "deleted": "deleted",
            "next fire": "status.next_fire_at",
            "paused until": "status.paused_until",
        },
    )
