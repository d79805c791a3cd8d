"""Commands for tasks."""

from typing import Annotated, Any

import typer

from controller.cli import output
from controller.cli.session import ByDomain, ByProject, Cursor, Limit, current_session

app = typer.Typer(no_args_is_help=True, help="Tasks and their versions.")

TaskName = Annotated[str, typer.Argument(metavar="TASK", help="Task version: project/domain/name@version.")]


@app.command()
def register(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="File with Tasks; - is standard input.")],
) -> None:
    """Register every task of a file. An existing version must have the same spec."""
    from controller.cli import arguments
    from revisions.errors import Invalid
    from revisions.spec.task import TaskManifest

    documents = arguments.read_documents(file)
    others = sorted({arguments.kind_of(document) for document in documents} - {"Task"})
    if others or not documents:
        holds = f"holds {', '.join(others)} too" if others else "holds no Task"
        hint = "keep triggers in files of their own and `triggerctl deploy` them"
        raise Invalid.at(arguments.display_name(file), f"{holds}; only Tasks are taken", hint)
    session = current_session(context)
    with arguments.errors_name_file(arguments.display_name(file)):
        paths = [arguments.task_key_path(TaskManifest.read(document).key) for document in documents]
        with session.client() as client:
            tasks = [client.put(path, document) for path, document in zip(paths, documents, strict=True)]
    for task in tasks:
        output.write_warnings(task)
    columns: output.Columns = {"TASK": _task_name, "CHANGED": "changed"}
    counts = {"TRIGGERS": "total_triggers", "ACTIVE": "active_triggers"}
    output.print_list(session, {"items": tasks, "next_cursor": None}, {**columns, **counts})


@app.command("list")
def list_tasks(
    context: typer.Context,
    project: ByProject = None,
    domain: ByDomain = None,
    name: Annotated[str | None, typer.Option(metavar="N", help="Only versions of the task with this name.")] = None,
    limit: Limit = None,
    cursor: Cursor = None,
) -> None:
    """List task versions and a summary of their triggers."""
    session = current_session(context)
    with session.client() as client:
        answer = client.list_items("/tasks", limit, cursor, project=project, domain=domain, name=name)
    output.print_list(
        session,
        answer,
        {
            "TASK": _task_name,
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
    from controller.cli import arguments

    session = current_session(context)
    path = arguments.task_path(task)
    with session.client() as client:
        answer = client.get(path)
    output.print_fields(session, answer)


@app.command()
def delete(context: typer.Context, task: TaskName) -> None:
    """Delete a version of a task and the triggers bound to it."""
    from controller.cli import arguments

    session = current_session(context)
    path = arguments.task_path(task)
    with session.client() as client:
        before = client.get(path)
        answer = client.delete(path)
    output.print_fields(session, answer)
    if count := before["total_triggers"]:
        triggers = output.count_of(count, "bound trigger")
        output.write_note(f"{triggers} deleted with it; `triggerctl changes` lists them")


def _task_name(item: Any) -> str:
    return f"{item['project']}/{item['domain']}/{item['name']}@{item['version']}"
