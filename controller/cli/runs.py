"""Commands for runs that are there."""

from typing import Annotated

import typer

from controller.cli import session as sessions
from controller.cli.session import ByDomain, ByProject, ByTask, Cursor
from revisions.outcomes import RunStatus

app = typer.Typer(no_args_is_help=True, help="Runs and what they printed.")

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
DEFAULT_LIMIT = 100


@app.command("list")
def listing(
    context: typer.Context,
    project: ByProject = None,
    domain: ByDomain = None,
    task: ByTask = None,
    trigger: Annotated[str | None, typer.Option(metavar="T", help="project/domain/task/name")] = None,
    status: Annotated[
        str | None, typer.Option(metavar="S", help="Only those that are pending, running, succeeded, failed, …")
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="S", help="Only those from schedule, manual or backfill.")
    ] = None,
    dead: Annotated[
        bool, typer.Option("--dead", help="Only those that failed for good and were not retried since.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many at most.")] = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> None:
    """List runs, newest first."""
    from controller.cli import screen

    session = sessions.of(context)
    wanted = {"project": project, "domain": domain, "task": task, "trigger": trigger, "status": status}
    with session.client() as client:
        answer = client.items("/runs", limit, cursor, **wanted, source=source, dead=dead or None)
    columns = ("id", "trigger", "status", "scheduled_at", "source", "attempt", "error")
    screen.rows(session, answer, {name.upper().replace("_", " "): name for name in columns})


@app.command()
def show(context: typer.Context, run: RunId) -> None:
    """Show one run."""
    from controller.cli import files, screen

    session = sessions.of(context)
    path = files.run_path(run)
    with session.client() as client:
        answer = client.get(path)
    screen.facts(session, answer)


@app.command()
def logs(
    context: typer.Context,
    run: RunId,
    attempt: Annotated[int | None, typer.Option(min=1, help="Which attempt; left out, the newest.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on as it prints, through its later attempts, to the end of the run.")
    ] = False,
) -> None:
    """Print what a run printed, byte for byte."""
    import sys

    from controller.cli import files, following

    session = sessions.of(context)
    path = f"{files.run_path(run)}/logs"
    with session.client() as client:
        if follow:
            following.follow(client, path, attempt)
        else:
            sys.stdout.buffer.write(client.download(path, attempt=attempt))


@app.command()
def approve(context: typer.Context, run: RunId) -> None:
    """Let a parked run go on; `runs cancel` rejects it."""
    from controller.cli import files, screen

    session = sessions.of(context)
    path = files.run_path(run)
    with session.client() as client:
        answer = client.post(f"{path}/approve")
    screen.facts(session, answer, {"run": "id", "trigger": "trigger", "status": "status", "approved by": "approved_by"})


@app.command()
def cancel(
    context: typer.Context,
    run: RunId,
    reason: Annotated[str, typer.Option(help="Why; kept of a run that does not run yet.")] = "",
) -> None:
    """Cancel a run that waits, reject one that is parked, and ask one that runs to end."""
    from controller.cli import files, screen

    session = sessions.of(context)
    path = files.run_path(run)
    with session.client() as client:
        answer = client.post(f"{path}/cancel", {"reason": reason} if reason else None)
    if answer["status"] == RunStatus.RUNNING:
        screen.note("note: it is asked to end, and runs until it has")
    elif answer["status"] != RunStatus.CANCELLED:
        screen.note(f"note: it had {answer['status'].replace('_', ' ')} before, and stays so")
    screen.facts(session, answer, {"run": "id", "trigger": "trigger", "status": "status"})


@app.command()
def retry(
    context: typer.Context,
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="The run's id; or name --dead and a trigger.")
    ] = None,
    dead: Annotated[bool, typer.Option("--dead", help="All of a trigger's runs that failed for good.")] = False,
    trigger: Annotated[str | None, typer.Option(metavar="T", help="Whose; goes with --dead.")] = None,
) -> None:
    """Have a run that ended badly run again; or all of a trigger's that failed for good, the oldest first."""
    if (run is None) != dead or (trigger is not None) != dead:
        raise typer.BadParameter("name either a run, or --dead and whose with --trigger")
    from controller.cli import files, screen

    session = sessions.of(context)
    if run is None:
        _retry_dead(session, trigger)
        return
    path = files.run_path(run)
    with session.client() as client:
        answer = client.post(f"{path}/retry")
    screen.facts(session, answer, {"run": "id", "trigger": "trigger", "status": "status"})
    screen.warn(answer)


def _retry_dead(session: sessions.Session, trigger: str | None) -> None:
    """One that somebody else has retried meanwhile is no longer dead, and so left out."""
    from controller.cli import files, long, screen
    from controller.cli.client import Refused

    again = []
    with session.client() as client:
        found = client.items("/runs", trigger=trigger, dead=True)["items"]
        with long.shown("retrying …") as tell:
            for done, one in enumerate(reversed(found)):
                tell(done, len(found))
                try:
                    again.append(client.post(f"{files.run_path(one['id'])}/retry"))
                except Refused as error:
                    if [fault["path"] for fault in error.problem["errors"]] != ["status"]:
                        raise
    columns = {"RUN": "id", "SCHEDULED AT": "scheduled_at", "STATUS": "status", "ATTEMPT": "attempt"}
    screen.rows(session, {"items": again, "next_cursor": None}, columns)
    for one in again[-1:]:
        screen.warn(one)
