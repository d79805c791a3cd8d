"""Commands for tasks."""

from typing import Annotated, Any, cast

import typer

from controller.cli import session as sessions
from controller.cli.session import Cursor, Limit

app = typer.Typer(no_args_is_help=True, help="Tasks and their versions.")

TaskName = Annotated[str, typer.Argument(metavar="TASK", help="project/domain/name@version")]


def name_of(item: Any) -> str:
    return f"{item['project']}/{item['domain']}/{item['name']}@{item['version']}"


@app.command()
def register(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file with Tasks; - is standard input.")],
) -> None:
    """Register every task of a file; a version that is there already must be the same."""
    from controller.cli import files, screen
    from revisions.errors import Invalid

    found = files.read(file)
    others = sorted({files.kind_of(document) for document in found} - {"Task"})
    if others or not found:
        holds = f"holds {', '.join(others)} too" if others else "holds no Task"
        hint = "keep triggers in files of their own and `triggerctl deploy` them"
        raise Invalid.at(files.called(file), f"{holds}; only Tasks are taken", hint)
    session = sessions.of(context)
    with files.about(files.called(file)):
        paths = [_path_of(document) for document in found]
        with session.client() as client:
            made = [client.put(path, document) for path, document in zip(paths, found, strict=True)]
    for warning in (warning for item in made for warning in item["warnings"]):
        screen.note(f"warning: {warning}")
    screen.rows(
        session,
        {"items": made, "next_cursor": None},
        {"TASK": name_of, "CHANGED": "changed", "TRIGGERS": "total_triggers", "ACTIVE": "active_triggers"},
    )


@app.command("list")
def listing(
    context: typer.Context,
    project: Annotated[str | None, typer.Option()] = None,
    domain: Annotated[str | None, typer.Option()] = None,
    name: Annotated[str | None, typer.Option()] = None,
    limit: Limit = None,
    cursor: Cursor = None,
) -> None:
    """List task versions with the summary of their triggers."""
    from controller.cli import screen

    session = sessions.of(context)
    with session.client() as client:
        answer = client.items("/tasks", limit, cursor, project=project, domain=domain, name=name)
    screen.rows(
        session,
        answer,
        {
            "TASK": name_of,
            "LAUNCHER": "spec.launcher",
            "TRIGGERS": "total_triggers",
            "ACTIVE": "active_triggers",
            "TRIGGER": "trigger_name",
            "AUTOMATION": "trigger_automation",
        },
    )


@app.command()
def show(context: typer.Context, task: TaskName) -> None:
    """Show one version of a task."""
    from controller.cli import files, screen

    session = sessions.of(context)
    path = files.task_path(task)
    with session.client() as client:
        answer = client.get(path)
    screen.facts(session, answer)


@app.command()
def delete(context: typer.Context, task: TaskName) -> None:
    """Delete a version, and the triggers bound to it."""
    from controller.cli import files, screen

    session = sessions.of(context)
    path = files.task_path(task)
    with session.client() as client:
        answer = client.delete(path)
    screen.facts(session, answer)


def _path_of(document: Any) -> str:
    """Where the metadata says the task is; a manifest that does not say so is refused with all its faults."""
    from controller.cli import files
    from revisions.ids import TaskKey

    metadata = document.get("metadata")
    parts = ("project", "domain", "name", "version")
    names = [metadata.get(part) for part in parts] if isinstance(metadata, dict) else []
    if len(names) == 4 and all(isinstance(name, str) and name for name in names):
        return files.task_key_path(TaskKey(*cast(list[str], names)))
    from revisions.manifests import Task

    return files.task_key_path(Task.read(document).key)
