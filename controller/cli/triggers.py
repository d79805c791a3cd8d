"""Commands for triggers: deploying and reading."""

from typing import Annotated, Any, cast

import typer

from controller.cli import session as sessions
from controller.cli.session import Cursor, Limit, Session, TriggerName

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
    headers = {"If-None-Match": "*"} if expected_revision is None else at(expected_revision)
    if idempotency_key is not None:
        headers["Idempotency-Key"] = idempotency_key
    session = sessions.of(context)
    with files.about(files.called(file)):
        path = _path_of(document)
        with session.client() as client:
            answer = client.put(path, document, headers=headers)
    changed(session, answer)


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
    as_of: Annotated[str | None, typer.Option(metavar="TIME", help="As it stood at this instant.")] = None,
) -> None:
    """Show a trigger, one of its revisions, or how it stood at a time."""
    if revision is not None and as_of is not None:
        raise typer.BadParameter("name either a --revision or a time with --as-of")
    from controller.cli import files, screen

    session = sessions.of(context)
    path = files.trigger_path(trigger)
    with session.client() as client:
        answer = client.get(path, as_of=as_of) if revision is None else client.get(f"{path}/revisions/{revision}")
    screen.facts(session, answer)


def at(revision: int) -> dict[str, str]:
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


def changed(session: Session, answer: dict[str, Any]) -> None:
    """What a change answers: the trigger as it stands now."""
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
