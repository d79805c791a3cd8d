"""The command for looking ahead."""

from typing import Annotated

import typer

from controller.cli import session as sessions

app = typer.Typer()


@app.command("next")
def ahead(
    context: typer.Context,
    trigger: Annotated[str | None, typer.Argument(metavar="T", help="project/domain/task/name")] = None,
    file: Annotated[str | None, typer.Option(metavar="FILE", help="A file with one Trigger, not deployed.")] = None,
    n: Annotated[int, typer.Option("-n", min=1, max=1000, help="How many fires.")] = 10,
    after: Annotated[str | None, typer.Option(metavar="TIME", help="Later than this instant; left out, now.")] = None,
) -> None:
    """Show the next fires of a trigger or of a file, and what a gap or a fold leaves out."""
    if (trigger is None) == (file is None):
        raise typer.BadParameter("name either a trigger or a --file")
    from controller.cli import files, screen

    session = sessions.of(context)
    if trigger is not None:
        path = files.trigger_path(trigger)
        with session.client() as client:
            answer = client.get(f"{path}/next", n=n, after=after)
    else:
        assert file is not None
        document = files.one(file, "Trigger", "a task by itself never fires")
        with files.about(files.called(file)), session.client() as client:
            answer = client.post("/next", document, n=n, after=after)
    if session.output is not sessions.Output.table:
        screen.document(session, answer)
        return
    screen.table([["LOCAL", "UTC", "ID"], *([fire["local"], fire["utc"], fire["id"]] for fire in answer["fires"])])
    for missed in answer["skipped"]:
        screen.write(f"left out: {missed['local']} ({missed['reason']})\n")
