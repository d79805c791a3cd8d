"""Commands that deploy and read triggers."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli import output
from controller.cli.session import (
    ByDomain,
    ByProject,
    ByTask,
    Cursor,
    IdempotencyKey,
    Limit,
    OutputFormat,
    Session,
    TriggerName,
    current_session,
)

if TYPE_CHECKING:
    from controller.cli.client import Client

app = typer.Typer()

_OTHER_KINDS = "tasks go to `triggerctl task register`, calendars to `triggerctl calendar deploy`"

RUNS_PER_REQUEST = 100
"""Run ids in one query, so that the URL stays short enough for every proxy."""


@app.command()
def deploy(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="File with one Trigger; - is standard input.")],
    expected_revision: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Revision you read; without it the trigger must be new.")
    ] = None,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Deploy one trigger from a manifest: create it, or update the revision you read."""
    from controller.cli import arguments
    from controller.cli.client import if_match_or_new
    from revisions.spec.trigger import TriggerManifest

    document = arguments.read_manifest(file, "Trigger", _OTHER_KINDS)
    headers = if_match_or_new(expected_revision)
    if idempotency_key is not None:
        headers["Idempotency-Key"] = idempotency_key
    session = current_session(context)
    with arguments.errors_name_file(arguments.display_name(file)):
        path = arguments.trigger_path(str(TriggerManifest.read(document).key))
        with session.client() as client:
            trigger = client.put(path, document, headers=headers)
    print_changed_trigger(session, trigger)


@app.command("list")
def list_triggers(
    context: typer.Context,
    project: ByProject = None,
    domain: ByDomain = None,
    task: ByTask = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Only triggers with this tag.")] = None,
    origin: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only triggers applied from the folder with this name.")
    ] = None,
    active: Annotated[
        bool | None, typer.Option("--active/--inactive", help="Only active triggers, or only inactive ones.")
    ] = None,
    limit: Limit = None,
    cursor: Cursor = None,
) -> None:
    """List triggers. Deleted ones are left out."""
    session = current_session(context)
    filters = {"project": project, "domain": domain, "task": task, "tag": tag, "active": active, "origin": origin}
    with session.client() as client:
        answer = client.list_items("/triggers", limit, cursor, **filters)
        items = answer["items"]
        run_statuses = last_run_statuses(client, items) if session.output is OutputFormat.table else {}
    columns: output.Columns = {"TRIGGER": trigger_name, "REVISION": "revision", "ACTIVE": "active"}
    if any(item["status"]["deactivated_reason"] for item in items):
        columns = {**columns, "BECAUSE": "status.deactivated_reason"}
    if any(item["status"]["held"] for item in items):
        columns = {**columns, "HELD BY": _hold}
    columns = {
        **columns,
        "NEXT FIRE": "status.next_fire_at",
        "LAST FIRE": "status.last_fired_at",
        "LAST OUTCOME": lambda item: _quarantine_end(item) or _last_outcome(item, run_statuses),
        "LAST ERROR": _last_error,
    }
    output.print_list(session, answer, columns)


@app.command()
def show(
    context: typer.Context,
    trigger: TriggerName,
    revision: Annotated[int | None, typer.Option(min=1, metavar="N", help="Show this revision.")] = None,
    as_of: Annotated[str | None, typer.Option(metavar="TIME", help="Show the trigger as it was at this time.")] = None,
) -> None:
    """Show a trigger, one of its revisions, or the trigger as it was at a time."""
    if revision is not None and as_of is not None:
        raise typer.BadParameter("name either a --revision or a time with --as-of")
    from controller.cli import arguments

    session = current_session(context)
    path = arguments.trigger_path(trigger)
    with session.client() as client:
        if revision is not None:
            output.print_fields(session, client.get(f"{path}/revisions/{revision}"))
            return
        answer = client.get(path, as_of=as_of)
        run_statuses = last_run_statuses(client, [answer]) if session.output is OutputFormat.table else {}
    outcome: output.Columns = {"last outcome": lambda item: _last_outcome(item, run_statuses)}
    output.print_fields(session, answer, {**_STATE_FIELDS, **outcome, **_RUN_FIELDS})


def print_changed_trigger(session: Session, trigger: dict[str, Any]) -> None:
    """Print a trigger after a change to it, and the change's warnings."""
    output.write_warnings(trigger)
    output.print_fields(
        session,
        trigger,
        {
            "trigger": trigger_name,
            "revision": "revision",
            "changed": "changed",
            "active": "active",
            "deleted": _only_if_true("deleted"),
            "next fire": "status.next_fire_at",
            "paused until": "status.paused_until",
        },
    )


def trigger_name(item: Any) -> str:
    return "/".join(item[part] for part in ("project", "domain", "task", "name"))


def last_run_statuses(client: "Client", triggers: Sequence[Any]) -> dict[str, str]:
    """Return run id → status for the last run of each trigger, in few requests."""
    started = [item["status"]["last_run_id"] for item in triggers if item["status"]["last_outcome"] == "started"]
    ids = [id for id in started if id]
    batches = [ids[start : start + RUNS_PER_REQUEST] for start in range(0, len(ids), RUNS_PER_REQUEST)]
    runs = [run for batch in batches for run in client.get("/runs", id=",".join(batch), limit=len(batch))["items"]]
    return {run["id"]: run["status"] for run in runs}


def _last_outcome(item: Any, run_statuses: Mapping[str, str]) -> str | None:
    """Return the outcome of the newest occurrence; if it started a run, with that run's status."""
    outcome: str | None = item["status"]["last_outcome"]
    run_status = run_statuses.get(item["status"]["last_run_id"])
    return f"{outcome}, run {run_status.replace('_', ' ')}" if outcome == "started" and run_status else outcome


def _last_error(item: Any) -> str | None:
    """Return why the trigger is quarantined, or else the error of its last run."""
    quarantine = item["status"]["quarantined"]
    error: str | None = quarantine["error"] if quarantine else item["status"]["last_error"]
    return error


def _quarantine_end(item: Any) -> str | None:
    """Return until when a trigger is quarantined: it cannot be decided, so nothing starts (L-13)."""
    quarantine = item["status"]["quarantined"]
    return f"quarantined until {output.format_cell(quarantine['until'])}" if quarantine else None


def _quarantine(item: Any) -> str | None:
    quarantine = item["status"]["quarantined"]
    if not quarantine:
        return None
    until, since = output.format_cell(quarantine["until"]), output.format_cell(quarantine["since"])
    attempts = output.count_of(quarantine["attempts"], "time")
    return f"until {until}, tried {attempts} since {since}: {quarantine['error']}"


def _hold(item: Any) -> str | None:
    """Return the freeze or blackout that keeps the trigger from starting now, and its end."""
    hold = item["status"]["held"]
    if not hold:
        return None
    end = f"until {output.format_cell(hold['until'])}" if hold["until"] else "until it is lifted"
    return f"{hold['kind']} {end}"


def _hold_with_reason(item: Any) -> str | None:
    hold = item["status"]["held"]
    return f"{_hold(item)}, by {hold['owner']}: {hold['reason']}" if hold else None


def _only_if_true(name: str) -> Callable[[Any], bool | None]:
    """Return a column that is left out unless the field is true."""
    return lambda item: item[name] or None


_STATE_FIELDS: output.Columns = {
    "trigger": trigger_name,
    "revision": "revision",
    "active": "active",
    "deleted": _only_if_true("deleted"),
    "tags": "tags",
    "changed at": "changed_at",
    "changed by": "changed_by",
    "hash": "hash",
    "paused until": "status.paused_until",
    "deactivated because": "status.deactivated_reason",
    "held by": _hold_with_reason,
    "quarantined": _quarantine,
    "next fire": "status.next_fire_at",
    "last fire": "status.last_fired_at",
    "last success": "status.last_success_at",
}
_RUN_FIELDS: output.Columns = {
    "last outcome at": "status.last_outcome_at",
    "last run": "status.last_run_id",
    "last error": "status.last_error",
    "runs": "status.run_count",
    "failures in a row": "status.consecutive_failures",
    "spec": "spec",
}
