"""Commands that report on the past of triggers: audit, explanation, missed deadlines and costs; and on their state."""

import json
from collections.abc import Iterator
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli import output
from controller.cli.session import Cursor, FromTime, Limit, OutputFormat, Session, TriggerName, current_session

if TYPE_CHECKING:
    from controller.cli.client import Client

app = typer.Typer()

FAULTS = ("missing", "unexpected")
_COLOURS = {"on_time": "green", "late": "yellow", "missing": "red", "unexpected": "red"}
_KINDS = ("on_time", "late", "skipped", "inactive", "undecided", "not_kept", "missing", "unexpected")


class CostGroup(StrEnum):
    """Values of `costs --by`; the member names are what users type."""

    trigger = "trigger"
    tag = "tag"
    project = "project"


ToTime = Annotated[str | None, typer.Option("--to", metavar="TIME", help="End of the period, exclusive; default now.")]


@app.command()
def audit(
    context: typer.Context,
    trigger: TriggerName,
    since: FromTime,
    to: ToTime = None,
    limit: Limit = None,
    cursor: Cursor = None,
) -> None:
    """Compare the runs expected of a trigger with the recorded ones. Exits with 1 if any is missing or unexpected."""
    from controller.cli import arguments

    session = current_session(context)
    path = arguments.trigger_path(trigger)
    with session.client() as client:
        answer = _read_audit(client, f"{path}/audit", limit, cursor, {"from": since, "to": to})
    if session.output is not OutputFormat.table:
        output.print_document(session, answer)
    else:
        groups = list(_group_occurrences(answer["items"]))
        headings = ["KIND", "CAUSE", "FROM", "UNTIL", "COUNT"]
        styles = [_COLOURS.get(group[0]["kind"], "") for group in groups]
        output.print_table([headings, *map(_group_cells, groups)], styles)
        if answer["summary"]:
            output.write(f"{_summary(answer['summary'])}\n")
        if answer["next_cursor"]:
            output.write_note(f"there is more: go on with --cursor {answer['next_cursor']}, or take more with --limit")
    has_fault = any(item["kind"] in FAULTS for item in answer["items"])
    if has_fault or (answer["summary"] and not answer["summary"]["clean"]):
        raise typer.Exit(1)


@app.command()
def explain(
    context: typer.Context,
    trigger: TriggerName,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="Time to explain; default the newest.")] = None,
) -> None:
    """Explain why a trigger fired at a time, or did not."""
    from controller.cli import arguments

    session = current_session(context)
    path = arguments.trigger_path(trigger)
    with session.client() as client:
        answer = client.get(f"{path}/explain", at=at)
    if session.output is not OutputFormat.table:
        output.print_document(session, answer)
        return
    for sentence in answer["sentences"]:
        output.print_line(sentence)


@app.command()
def deadlines(context: typer.Context, trigger: TriggerName, limit: Limit = None, cursor: Cursor = None) -> None:
    """List the missed deadlines of a trigger, newest first."""
    from controller.cli import arguments

    session = current_session(context)
    path = arguments.trigger_path(trigger)
    with session.client() as client:
        answer = client.list_items(f"{path}/deadlines", limit, cursor)
    columns = {
        "DUE AT": "due_at",
        "KIND": "kind",
        "SCHEDULED AT": "scheduled_at",
        "OCCURRENCE": "occurrence_id",
        "REVISION": "revision",
        "NOTICED AT": "noticed_at",
    }
    output.print_list(session, answer, columns)


@app.command()
def costs(
    context: typer.Context,
    by: Annotated[CostGroup, typer.Option(help="Sum by trigger, tag or project.")] = CostGroup.trigger,
    since: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Start of the period, inclusive.")] = None,
    to: ToTime = None,
    project: Annotated[str | None, typer.Option(help="Only costs of this project.")] = None,
) -> None:
    """Show the costs of runs, the most expensive first."""
    session = current_session(context)
    with session.client() as client:
        answer = client.get("/costs", by=by.value, **{"from": since, "to": to, "project": project})
    if session.output is not OutputFormat.table:
        output.print_document(session, answer)
        return
    rows = [[output.format_cell(item["name"]), f"{item['cost']:g}", str(item["runs"])] for item in answer["items"]]
    output.print_table([[by.value.upper(), "COST", "RUNS"], *rows])
    output.write(f"{answer['cost']:g} in {output.count_of(answer['runs'], 'run')}\n")


def _read_audit(
    client: "Client", path: str, limit: int | None, cursor: str | None, params: dict[str, Any]
) -> dict[str, Any]:
    """Read an audit in pages and join them. Only the first page has a summary, and it fixes the end of the period."""
    from controller.cli.client import MAX_PAGE_SIZE

    first_page: dict[str, Any] = {}
    items: list[Any] = []
    while not first_page or (cursor is not None and (limit is None or len(items) < limit)):
        page_size = MAX_PAGE_SIZE if limit is None else min(MAX_PAGE_SIZE, limit - len(items))
        page = client.get(path, limit=page_size, cursor=cursor, **params)
        first_page = first_page or page
        items += page["items"]
        cursor = page["next_cursor"]
        params = params | {"to": page["to"]}
    return {**first_page, "items": items, "next_cursor": cursor}


def _group_occurrences(items: list[Any]) -> Iterator[list[Any]]:
    """Group consecutive occurrences of the same kind and cause."""
    for _, group in groupby(items, key=lambda item: (item["kind"], _cause(item))):
        yield list(group)


def _group_cells(group: list[Any]) -> list[str]:
    first, last = group[0], group[-1]
    values = (_label(first["kind"]), _cause(first), first["scheduled_at"], last["scheduled_at"], str(len(group)))
    return [output.format_cell(value) for value in values]


def _cause(item: Any) -> str:
    """Return the outcome and the reason of a skip."""
    return ", ".join(part for part in (item["outcome"], item["reason"]) if part)


def _summary(summary: Any) -> str:
    parts = [f"{summary[kind]:,} {_label(kind)}" for kind in _KINDS if summary[kind]]
    total = output.count_of(sum(summary[kind] for kind in _KINDS), "occurrence")
    return f"{total}: {', '.join(parts)}" if parts else total


def _label(kind: str) -> str:
    return kind.replace("_", " ")


@app.command()
def state(
    context: typer.Context,
    trigger: TriggerName,
    set_from: Annotated[
        str | None,
        typer.Option("--set", metavar="FILE", help="Set it to the JSON or YAML value in a file; - is standard input."),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove it, so that the next run finds none.")] = False,
) -> None:
    """Show, set or remove the state that the runs of a trigger hand on."""
    if clear and set_from is not None:
        raise typer.BadParameter("--set gives a state, --clear removes it: name one of them")
    from controller.cli import arguments

    session = current_session(context)
    path = f"{arguments.trigger_path(trigger)}/state"
    method, value = ("DELETE" if clear else "GET"), None
    if set_from is not None:
        method, value = "PUT", _read_value(set_from)
    with session.client() as client:
        _print_state(session, client.request(method, path, value).json())


def _read_value(file: str) -> Any:
    """Return the only value in a file. Raises Invalid and Malformed."""
    from controller.cli import arguments
    from revisions.errors import Invalid

    values = arguments.read_documents(file)
    if len(values) != 1:
        hint = "write one JSON or YAML document" if values else "`triggerctl state T --clear` removes a state"
        raise Invalid.at(arguments.display_name(file), f"holds {len(values)} values; one is taken", hint)
    return values[0]


def _print_state(session: Session, answer: dict[str, Any]) -> None:
    if session.output is not OutputFormat.table:
        output.print_document(session, answer)
        return
    fields = {"trigger": "trigger", "changed at": "changed_at", "changed by": "changed_by", "run": "run_id"}
    output.print_fields(session, answer, fields)
    if answer["state"] is None:
        output.print_line("There is no state: the next run finds null.")
    else:
        output.print_line(f"state: {json.dumps(answer['state'], ensure_ascii=False)}")
