"""Commands that create runs by hand: one now, or those of a past period."""

from typing import Annotated, Any

import typer

from controller.cli import output
from controller.cli.session import (
    FromTime,
    IdempotencyKey,
    OutputFormat,
    Session,
    TriggerName,
    TriggerOrTag,
    current_session,
)

app = typer.Typer()

Input = Annotated[
    str | None, typer.Option("--input", metavar="JSON", help="JSON object that overrides the trigger's input.")
]


@app.command()
def fire(
    context: typer.Context,
    trigger: TriggerOrTag = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Fire every trigger with this tag.")] = None,
    input: Input = None,
    overlap: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="If a run is live: allow, skip, queue_one, queue_all, cancel or terminate; default skip.",
        ),
    ] = None,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Create a run of a trigger now, independent of its schedule; or one of each trigger with a tag."""
    if (trigger is None) == (tag is None):
        raise typer.BadParameter("name either a trigger or a --tag")
    from controller.cli import arguments
    from controller.cli.client import without_none

    session = current_session(context)
    body = without_none(tag=tag, input=_read_input(input), overlap=overlap)
    if trigger is None:
        _fire_tagged(session, body, idempotency_key)
        return
    path = arguments.trigger_path(trigger)
    with session.client() as client:
        answer = client.post(f"{path}/fire", body, headers=_idempotency_header(idempotency_key))
    fields = {"run": "id", "trigger": "trigger", "status": "status", "input": "input"}
    output.print_fields(session, answer, fields)
    output.write_warnings(answer)


@app.command()
def backfill(
    context: typer.Context,
    trigger: TriggerName,
    since: FromTime,
    to: Annotated[str, typer.Option("--to", metavar="TIME", help="End of the period, exclusive; at most now.")],
    force: Annotated[bool, typer.Option("--force", help="Create runs also for occurrences that have one.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the occurrences without creating runs.")] = False,
    input: Input = None,
    overlap: Annotated[
        str | None, typer.Option(metavar="HOW", help="queue_all (one after the other) or allow; default queue_all.")
    ] = None,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Create the runs of a past period: one for each occurrence that has none."""
    from controller.cli import arguments
    from controller.cli.client import without_none

    session = current_session(context)
    path = arguments.trigger_path(trigger)
    body = without_none(force=force, dry_run=dry_run, input=_read_input(input), overlap=overlap, to=to)
    body["from"] = since
    with session.client() as client:
        answer = client.post_with_progress(f"{path}/backfill", body, headers=_idempotency_header(idempotency_key))
    _print_backfill(session, answer)
    output.write_warnings(answer)


def _fire_tagged(session: Session, body: dict[str, Any], idempotency_key: str | None) -> None:
    """Fire every trigger with a tag. The exit status is that of the first refusal."""
    from controller.errors import exit_code

    with session.client() as client:
        answer = client.post_with_progress("/triggers:fire", body, headers=_idempotency_header(idempotency_key))
    if not answer["items"]:
        output.write_note(f"no trigger has the tag {body['tag']!r}")
    columns: output.Columns = {
        "TRIGGER": "trigger",
        "RUN": lambda item: item["run"] and item["run"]["id"],
        "REFUSED": lambda item: item["refused"] and item["refused"]["detail"],
    }
    output.print_list(session, answer, columns)
    for item in answer["items"]:
        output.write_warnings(item, item["trigger"])
    refusals = [item["refused"]["code"] for item in answer["items"] if item["refused"]]
    if refusals:
        raise typer.Exit(exit_code(refusals[0]))


def _print_backfill(session: Session, answer: dict[str, Any]) -> None:
    """Print the counts; of a dry run also each occurrence."""
    if session.output is not OutputFormat.table:
        output.print_document(session, answer)
        return
    if answer["dry_run"]:
        output.print_list(session, answer, {"OCCURRENCE": "id", "UTC": "utc", "LOCAL": "local"})
    runs = output.count_of(answer["made"], "run")
    output.print_line(f"{runs} would be made" if answer["dry_run"] else f"{runs} made")
    if answer["existing"]:
        existing = output.count_of(answer["existing"], "occurrence")
        output.write_note(f"{existing} had a run already: --force makes another one")
    if answer["undecided"]:
        undecided = output.count_of(answer["undecided"], "occurrence")
        output.write_note(f"{undecided} left to the schedule, which has a `count` and has not decided them yet")


def _idempotency_header(key: str | None) -> dict[str, str]:
    return {"Idempotency-Key": key} if key is not None else {}


def _read_input(text: str | None) -> Any:
    """Parse the value of --input. Raises Malformed if it is not JSON, Invalid if it is not an object."""
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
