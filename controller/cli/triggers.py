"""Commands for triggers: deploying and reading."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli import session as sessions
from controller.cli.session import (
    ByDomain,
    ByProject,
    ByTask,
    Cursor,
    IdempotencyKey,
    Limit,
    Output,
    Session,
    TriggerName,
)
from revisions.outcomes import OccurrenceOutcome

if TYPE_CHECKING:
    from controller.cli.client import Client
    from controller.cli.screen import Columns

app = typer.Typer()

_ELSEWHERE = "tasks go to `triggerctl task register`, calendars to `triggerctl calendar deploy`"

_AT_ONCE = 100
"""How many runs are asked for by their ids at once, so that an address stays short enough for every proxy."""


def name_of(item: Any) -> str:
    return "/".join(item[part] for part in ("project", "domain", "task", "name"))


@app.command()
def deploy(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file with one Trigger; - is standard input.")],
    expected_revision: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The revision you read; left out, the trigger must be new.")
    ] = None,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Create a trigger, or update the revision you read."""
    from controller.cli import files
    from revisions.spec.trigger import TriggerManifest

    document = files.one(file, "Trigger", _ELSEWHERE)
    headers = {"If-None-Match": "*"} if expected_revision is None else at(expected_revision)
    if idempotency_key is not None:
        headers["Idempotency-Key"] = idempotency_key
    session = sessions.of(context)
    with files.about(files.called(file)):
        path = files.trigger_path(str(TriggerManifest.read(document).key))
        with session.client() as client:
            answer = client.put(path, document, headers=headers)
    changed(session, answer)


@app.command("list")
def listing(
    context: typer.Context,
    project: ByProject = None,
    domain: ByDomain = None,
    task: ByTask = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Only those that bear it.")] = None,
    origin: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only those applied from the folder of that name.")
    ] = None,
    active: Annotated[
        bool | None, typer.Option("--active/--inactive", help="Only active ones, or only inactive ones.")
    ] = None,
    limit: Limit = None,
    cursor: Cursor = None,
) -> None:
    """List the triggers that are not deleted."""
    from controller.cli import screen

    session = sessions.of(context)
    wanted = {"project": project, "domain": domain, "task": task, "tag": tag, "active": active, "origin": origin}
    with session.client() as client:
        answer = client.items("/triggers", limit, cursor, **wanted)
        last = _last_runs(client, answer["items"]) if session.output is Output.table else {}
    holding = {"HELD BY": held} if any(held(item) for item in answer["items"]) else {}
    why = "status.deactivated_reason"
    resting = {"BECAUSE": why} if any(item["status"]["deactivated_reason"] for item in answer["items"]) else {}
    screen.rows(
        session,
        answer,
        {
            "TRIGGER": name_of,
            "REVISION": "revision",
            "ACTIVE": "active",
            **resting,
            **holding,
            "NEXT FIRE": "status.next_fire_at",
            "LAST FIRE": "status.last_fired_at",
            "LAST OUTCOME": lambda item: _apart(item) or outcome(item, last),
            "LAST ERROR": error,
        },
    )


@app.command()
def show(
    context: typer.Context,
    trigger: TriggerName,
    revision: Annotated[int | None, typer.Option(min=1, metavar="N", help="As it was at this revision.")] = None,
    as_of: Annotated[str | None, typer.Option(metavar="TIME", help="As it stood at this instant.")] = None,
) -> None:
    """Show a trigger, one of its revisions, or how it stood at a time."""
    if revision is not None and as_of is not None:
        raise typer.BadParameter("name either a --revision or a time with --as-of")
    from controller.cli import files, screen

    session = sessions.of(context)
    path = files.trigger_path(trigger)
    with session.client() as client:
        if revision is not None:
            screen.facts(session, client.get(f"{path}/revisions/{revision}"))
            return
        answer = client.get(path, as_of=as_of)
        last = _last_runs(client, [answer]) if session.output is Output.table else {}
    screen.facts(session, answer, {**_FACTS, "last outcome": lambda item: outcome(item, last), **_DID})


def at(revision: int) -> dict[str, str]:
    return {"If-Match": f'"{revision}"'}


def changed(session: Session, answer: dict[str, Any]) -> None:
    """What a change answers: the trigger as it stands now."""
    from controller.cli import screen

    screen.warn(answer)
    screen.facts(
        session,
        answer,
        {
            "trigger": name_of,
            "revision": "revision",
            "changed": "changed",
            "active": "active",
            "deleted": _if_so("deleted"),
            "next fire": "status.next_fire_at",
            "paused until": "status.paused_until",
        },
    )


def outcome(item: Any, last: Mapping[str, str]) -> str | None:
    """What became of the newest occurrence; that a run was started is told with how that run stands."""
    status = item["status"]
    said: str | None = status["last_outcome"]
    run = last.get(status["last_run_id"])
    return f"{said}, run {run.replace('_', ' ')}" if said == OccurrenceOutcome.STARTED and run else said


def _apart(item: Any) -> str | None:
    """That a trigger cannot be decided, so that nothing becomes of its occurrences (L-13)."""
    from controller.cli.screen import cell

    apart = item["status"]["quarantined"]
    return f"quarantined until {cell(apart['until'])}" if apart else None


def error(item: Any) -> str | None:
    """Why it cannot be decided, else what went wrong in its last run."""
    apart, last = item["status"]["quarantined"], item["status"]["last_error"]
    said: str | None = apart["error"] if apart else last
    return said


def _quarantined(item: Any) -> str | None:
    from controller.cli.screen import cell, many

    apart = item["status"]["quarantined"]
    if not apart:
        return None
    tried = f"{many(apart['attempts'], 'time')} since {cell(apart['since'])}"
    return f"until {cell(apart['until'])}, tried {tried}: {apart['error']}"


def held(item: Any) -> str | None:
    """The freeze or the blackout that keeps it from starting just now, and until when."""
    from controller.cli.screen import cell

    by = item["status"]["held"]
    if not by:
        return None
    return f"{by['kind']} until {cell(by['until'])}" if by["until"] else f"{by['kind']} until it is lifted"


def _held_and_why(item: Any) -> str | None:
    said, by = held(item), item["status"]["held"]
    return f"{said}, by {by['owner']}: {by['reason']}" if said else None


def _last_runs(client: "Client", triggers: Sequence[Any]) -> dict[str, str]:
    """How the last run of each trigger stands, by the run's id; a few requests for many triggers."""
    ids = [
        item["status"]["last_run_id"]
        for item in triggers
        if item["status"]["last_outcome"] == OccurrenceOutcome.STARTED
    ]
    wanted = [id for id in ids if id]
    parts = [wanted[start : start + _AT_ONCE] for start in range(0, len(wanted), _AT_ONCE)]
    runs = [run for part in parts for run in client.get("/runs", id=",".join(part), limit=_AT_ONCE)["items"]]
    return {run["id"]: run["status"] for run in runs}


def _if_so(name: str) -> Callable[[Any], bool | None]:
    """A fact that says something only where it is true."""
    return lambda item: item[name] or None


_FACTS: "Columns" = {
    "trigger": name_of,
    "revision": "revision",
    "active": "active",
    "deleted": _if_so("deleted"),
    "tags": "tags",
    "changed at": "changed_at",
    "changed by": "changed_by",
    "hash": "hash",
    "paused until": "status.paused_until",
    "deactivated because": "status.deactivated_reason",
    "held by": _held_and_why,
    "quarantined": _quarantined,
    "next fire": "status.next_fire_at",
    "last fire": "status.last_fired_at",
    "last success": "status.last_success_at",
}
_DID: "Columns" = {
    "last outcome at": "status.last_outcome_at",
    "last run": "status.last_run_id",
    "last error": "status.last_error",
    "runs": "status.run_count",
    "failures in a row": "status.consecutive_failures",
    "spec": "spec",
}
