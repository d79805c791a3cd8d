"""Commands that make runs by hand: now, of one trigger or of all with a tag, and for a time that has passed."""

from typing import Annotated, Any

import typer

from controller.cli import session as sessions
from controller.cli.session import IdempotencyKey, Output, Session, TriggerName

app = typer.Typer()

Chosen = Annotated[str | None, typer.Argument(metavar="T", help="project/domain/task/name; or name a --tag.")]
Input = Annotated[
    str | None, typer.Option("--input", metavar="JSON", help="An object; stands over the trigger's own input.")
]


@app.command()
def fire(
    context: typer.Context,
    trigger: Chosen = None,
    tag: Annotated[str | None, typer.Option("--tag", help="All triggers that bear it, each by itself.")] = None,
    input: Input = None,
    overlap: Annotated[
        str | None,
        typer.Option(metavar="HOW", help="If a run goes on: allow, skip, queue_one, queue_all, cancel or terminate."),
    ] = None,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Make a run now, whatever the schedule says; of one trigger, or of all with a tag."""
    if (trigger is None) == (tag is None):
        raise typer.BadParameter("name either a trigger or a --tag")
    from controller.cli import files, screen

    session = sessions.of(context)
    body = _said(tag=tag, input=_object(input), overlap=overlap)
    if trigger is None:
        _fire_all(session, body, idempotency_key)
        return
    path = files.trigger_path(trigger)
    with session.client() as client:
        answer = client.post(f"{path}/fire", body, headers=_headers(idempotency_key))
    screen.facts(session, answer, {"run": "id", "trigger": "trigger", "status": "status", "input": "input"})
    screen.warn(answer)


@app.command()
def backfill(
    context: typer.Context,
    trigger: TriggerName,
    since: Annotated[str, typer.Option("--from", metavar="TIME", help="From this instant on.")],
    to: Annotated[str, typer.Option("--to", metavar="TIME", help="Before this instant; nothing later than now.")],
    force: Annotated[bool, typer.Option("--force", help="Another run also where there is one.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be made, and make nothing.")] = False,
    input: Input = None,
    overlap: Annotated[
        str | None, typer.Option(metavar="HOW", help="queue_all, one after the other, or allow; left out, queue_all.")
    ] = None,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Make the runs of a time that has passed: one for each occurrence that has none."""
    from controller.cli import files, long, screen

    session = sessions.of(context)
    path = files.trigger_path(trigger)
    body = _said(force=force, dry_run=dry_run, input=_object(input), overlap=overlap) | {"from": since, "to": to}
    with session.client() as client:
        answer = long.post(client, f"{path}/backfill", body, _headers(idempotency_key))
    _shown(session, answer)
    screen.warn(answer)


def _fire_all(session: Session, body: dict[str, Any], idempotency_key: str | None) -> None:
    """Exit status is that of the first refusal."""
    from controller.cli import long, screen
    from controller.errors import exit_code

    with session.client() as client:
        answer = long.post(client, "/triggers:fire", body, _headers(idempotency_key))
    if not answer["items"]:
        screen.note(f"no trigger bears the tag {body['tag']!r}")
    columns: screen.Columns = {
        "TRIGGER": "trigger",
        "RUN": lambda item: item["run"] and item["run"]["id"],
        "REFUSED": lambda item: item["refused"] and item["refused"]["detail"],
    }
    screen.rows(session, answer, columns)
    for item in answer["items"]:
        screen.warn(item, item["trigger"])
    refused = [item["refused"]["code"] for item in answer["items"] if item["refused"]]
    if refused:
        raise typer.Exit(exit_code(refused[0]))


def _shown(session: Session, answer: dict[str, Any]) -> None:
    """In a table a dry run tells each occurrence, for that is what it is asked for; else the numbers are enough."""
    from controller.cli import screen

    if session.output is not Output.table:
        screen.document(session, answer)
        return
    if answer["dry_run"]:
        screen.rows(session, answer, {"OCCURRENCE": "id", "UTC": "utc", "LOCAL": "local"})
    runs = screen.many(answer["made"], "run")
    screen.line(f"{runs} would be made" if answer["dry_run"] else f"{runs} made")
    if answer["existing"]:
        screen.note(f"{screen.many(answer['existing'], 'occurrence')} had a run already: --force makes another one")
    if answer["undecided"]:
        left = screen.many(answer["undecided"], "occurrence")
        screen.note(f"{left} left to the schedule, which has a `count` and has not decided them yet")


def _said(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _headers(idempotency_key: str | None) -> dict[str, str]:
    return {"Idempotency-Key": idempotency_key} if idempotency_key is not None else {}


def _object(text: str | None) -> Any:
    """Raises Malformed for what is no JSON, Invalid for JSON that is no object."""
    import json

    from revisions.errors import Invalid, Malformed
    from revisions.spec import documents

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
