"""Commands for runs, and the one that makes one by hand."""

from typing import Annotated, Any

import typer

from controller.cli import session as sessions
from controller.cli.session import ByDomain, ByProject, ByTask, Cursor, IdempotencyKey, TriggerName

app = typer.Typer(no_args_is_help=True, help="Runs and what they printed.")
by_hand = typer.Typer()

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
DEFAULT_LIMIT = 100


@by_hand.command()
def fire(
    context: typer.Context,
    trigger: TriggerName,
    input: Annotated[str | None, typer.Option(metavar="JSON", help="Stands over the trigger's own input.")] = None,
    overlap: Annotated[
        str | None, typer.Option(metavar="HOW", help="What if a run goes on: allow, skip or queue_all.")
    ] = None,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Make a run now, whatever the schedule says."""
    from controller.cli import files, screen

    session = sessions.of(context)
    path = files.trigger_path(trigger)
    body = {"input": _object(input), "overlap": overlap}
    headers = {"Idempotency-Key": idempotency_key} if idempotency_key is not None else {}
    with session.client() as client:
        said = {name: value for name, value in body.items() if value is not None}
        answer = client.post(f"{path}/fire", said, headers=headers)
    screen.facts(session, answer, {"run": "id", "trigger": "trigger", "status": "status", "input": "input"})


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
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many at most.")] = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> None:
    """List runs, newest first."""
    from controller.cli import screen

    session = sessions.of(context)
    wanted = {"project": project, "domain": domain, "task": task, "trigger": trigger, "status": status}
    with session.client() as client:
        answer = client.items("/runs", limit, cursor, **wanted)
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
) -> None:
    """Print what a run printed, byte for byte."""
    import sys

    from controller.cli import files

    session = sessions.of(context)
    path = files.run_path(run)
    with session.client() as client:
        content = client.download(f"{path}/logs", attempt=attempt)
    sys.stdout.buffer.write(content)


@app.command()
def cancel(context: typer.Context, run: RunId) -> None:
    """Cancel a run that waits, and ask one that runs to end."""
    from controller.cli import files, screen

    session = sessions.of(context)
    path = files.run_path(run)
    with session.client() as client:
        answer = client.post(f"{path}/cancel")
    screen.facts(session, answer, {"run": "id", "trigger": "trigger", "status": "status"})


def _object(text: str | None) -> Any:
    """Raises Malformed for what is no JSON, Invalid for JSON that is no object."""
    import json

    from revisions import documents
    from revisions.errors import Invalid, Malformed

    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"--input: {error}") from None
    if not isinstance(value, dict):
        raise Invalid.at("input", f"must be an object, not {type(value).__name__}", """write '{"name": "value"}'""")
    documents.check(value, "input")
    return value
