"""Commands that read, approve, cancel and retry runs."""

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli import output
from controller.cli.session import ByDomain, ByProject, ByTask, Cursor, Session, current_session
from revisions.outcomes import RunStatus

if TYPE_CHECKING:
    from controller.cli.client import Client

app = typer.Typer(no_args_is_help=True, help="Runs and their logs.")

RunId = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.")]
DEFAULT_LIMIT = 100
POLL_SECONDS = 0.5
"""Interval at which `runs logs --follow` asks for more."""
LIVE_STATUSES = (RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PARKED)
_STATUS_FIELDS = {"run": "id", "trigger": "trigger", "status": "status"}


@app.command("list")
def list_runs(
    context: typer.Context,
    project: ByProject = None,
    domain: ByDomain = None,
    task: ByTask = None,
    trigger: Annotated[str | None, typer.Option(metavar="T", help="Only runs of this trigger.")] = None,
    status: Annotated[
        str | None, typer.Option(metavar="S", help="Only runs with this status: pending, running, succeeded, failed, …")
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="S", help="Only runs from this source: schedule, manual or backfill.")
    ] = None,
    dead: Annotated[bool, typer.Option("--dead", help="Only runs that failed for good and were not retried.")] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of runs.")] = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> None:
    """List runs, newest first."""
    session = current_session(context)
    filters = {"project": project, "domain": domain, "task": task, "trigger": trigger, "status": status}
    with session.client() as client:
        answer = client.list_items("/runs", limit, cursor, **filters, source=source, dead=dead or None)
    columns = ("id", "trigger", "status", "scheduled_at", "source", "attempt", "error")
    output.print_list(session, answer, {name.upper().replace("_", " "): name for name in columns})


@app.command()
def show(context: typer.Context, run: RunId) -> None:
    """Show one run."""
    from controller.cli import arguments

    session = current_session(context)
    path = arguments.run_path(run)
    with session.client() as client:
        answer = client.get(path)
    output.print_fields(session, answer)


@app.command()
def logs(
    context: typer.Context,
    run: RunId,
    attempt: Annotated[int | None, typer.Option(min=1, help="Number of the attempt; default the newest.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep printing until the run ends, through later attempts.")
    ] = False,
) -> None:
    """Print the log of a run, byte for byte."""
    from controller.cli import arguments

    session = current_session(context)
    path = f"{arguments.run_path(run)}/logs"
    with session.client() as client:
        if follow:
            follow_log(client, path, attempt)
        else:
            sys.stdout.buffer.write(client.download(path, attempt=attempt))


@app.command()
def approve(context: typer.Context, run: RunId) -> None:
    """Approve a parked run, so that it starts. Use `runs cancel` to reject it."""
    from controller.cli import arguments

    session = current_session(context)
    path = arguments.run_path(run)
    with session.client() as client:
        answer = client.post(f"{path}/approve")
    output.print_fields(session, answer, {**_STATUS_FIELDS, "approved by": "approved_by"})


@app.command()
def cancel(
    context: typer.Context,
    run: RunId,
    reason: Annotated[str, typer.Option(help="Reason, kept if the run has not started.")] = "",
) -> None:
    """Cancel a waiting run, reject a parked run, or ask a running one to stop."""
    from controller.cli import arguments

    session = current_session(context)
    path = arguments.run_path(run)
    with session.client() as client:
        answer = client.post(f"{path}/cancel", {"reason": reason} if reason else None)
    if answer["status"] == RunStatus.RUNNING:
        output.write_note("note: the run was asked to stop, and is running until it has")
    elif answer["status"] != RunStatus.CANCELLED:
        output.write_note(f"note: the run had {answer['status'].replace('_', ' ')} before, and stays so")
    output.print_fields(session, answer, _STATUS_FIELDS)


@app.command()
def retry(
    context: typer.Context,
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Id of the run; or use --dead and --trigger.")
    ] = None,
    dead: Annotated[bool, typer.Option("--dead", help="Retry all of a trigger's runs that failed for good.")] = False,
    trigger: Annotated[str | None, typer.Option(metavar="T", help="Trigger of the runs to retry with --dead.")] = None,
) -> None:
    """Retry a run that failed, timed out, expired or was cancelled; or all dead runs of a trigger, oldest first."""
    if (run is None) != dead or (trigger is not None) != dead:
        raise typer.BadParameter("name either a run, or --dead and its --trigger")
    from controller.cli import arguments

    session = current_session(context)
    if run is None:
        _retry_dead(session, trigger)
        return
    path = arguments.run_path(run)
    with session.client() as client:
        answer = client.post(f"{path}/retry")
    output.print_fields(session, answer, _STATUS_FIELDS)
    output.write_warnings(answer)


def _retry_dead(session: Session, trigger: str | None) -> None:
    """Retry every dead run of a trigger. A run that somebody else retried meanwhile is left out."""
    from controller.cli import arguments
    from controller.cli.client import ApiError

    retried = []
    with session.client() as client:
        dead_runs = client.list_items("/runs", trigger=trigger, dead=True)["items"]
        with output.progress_bar("retrying …") as show_progress:
            for done, run in enumerate(reversed(dead_runs)):
                show_progress(done, len(dead_runs))
                try:
                    retried.append(client.post(f"{arguments.run_path(run['id'])}/retry"))
                except ApiError as error:
                    if [fault["path"] for fault in error.problem["errors"]] != ["status"]:
                        raise
    columns = {"RUN": "id", "SCHEDULED AT": "scheduled_at", "STATUS": "status", "ATTEMPT": "attempt"}
    output.print_list(session, {"items": retried, "next_cursor": None}, columns)
    for run in retried[-1:]:
        output.write_warnings(run)


def follow_log(client: "Client", path: str, attempt: int | None) -> None:
    """Print a log as it grows (X-17): of one attempt, or of the newest and those after it.

    Ends with the attempt or the run, and without a message at Ctrl-C or when the reader has stopped.
    """
    with suppress(KeyboardInterrupt, BrokenPipeError):
        number, position = attempt, 0
        while True:
            response = client.request("GET", path, params={"attempt": number or None, "position": position})
            headers = response.headers
            if int(headers["Triggerctl-Position"]) < position:  # the attempt was handed back and started over
                position = 0
                continue
            sys.stdout.buffer.write(response.content)
            sys.stdout.buffer.flush()
            number, position = int(headers["Triggerctl-Attempt"]), int(headers["Triggerctl-Position"])
            newest, is_live = int(headers["Triggerctl-Newest-Attempt"]), headers["Triggerctl-Status"] in LIVE_STATUSES
            if number < newest and attempt is None:
                number, position = number + 1, 0
                output.write_note(f"attempt {number}")
            elif number < newest or not is_live:
                return
            else:
                time.sleep(POLL_SECONDS)
