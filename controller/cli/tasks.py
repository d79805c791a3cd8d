"""Commands for tasks."""

from typing import Annotated, Any

import typer

from controller.cli import session as sessions
from controller.cli.session import ByDomain, ByProject, Cursor, Limit

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
    from revisions.spec.task import TaskManifest

    found = files.read(file)
    others = sorted({files.kind_of(document) for document in found} - {"Task"})
    if others or not found:
        holds = f"holds {', '.join(others)} too" if others else "holds no Task"
        hint = "keep triggers in files of their own and `triggerctl deploy` them"
        raise Invalid.at(files.called(file), f"{holds}; only Tasks are taken", hint)
    session = sessions.of(context)
    with files.about(files.called(file)):
        paths = [files.task_key_path(TaskManifest.read(document).key) for document in found]
        with session.client() as client:
            made = [client.put(path, document) for path, document in zip(paths, found, strict=True)]
    for item in made:
        screen.warn(item)
    screen.rows(
        session,
        {"items": made, "next_cursor": None},
        {"TASK": name_of, "CHANGED": "changed", "TRIGGERS": "total_triggers", "ACTIVE": "active_triggers"},
    )


@app.command("list")
def listing(
    context: typer.Context,
    project: ByProject = None,
    domain: ByDomain = None,
    name: Annotated[str | None, typer.Option(metavar="N", help="Only versions of the task of this name.")] = None,
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
        before = client.get(path)
        answer = client.delete(path)
    screen.facts(session, answer)
    if bound := before["total_triggers"]:
        screen.note(f"{screen.many(bound, 'trigger')} bound to it went with it; `triggerctl changes` names them")
