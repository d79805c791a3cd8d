"""Commands that give an account: what should have happened against what did, and why, at one instant."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli import session as sessions
from controller.cli.session import Cursor, Limit, TriggerName

if TYPE_CHECKING:
    from controller.cli.client import Client

app = typer.Typer()

FAULTS = ("missing", "unexpected")
_COLOURS = {"on_time": "green", "late": "yellow", "missing": "red", "unexpected": "red"}
_KINDS = ("on_time", "late", "skipped", "inactive", "undecided", "not_kept", "missing", "unexpected")


@app.command()
def audit(
    context: typer.Context,
    trigger: TriggerName,
    since: Annotated[str, typer.Option("--from", metavar="TIME", help="From this instant on.")],
    to: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Before this instant; left out, now.")] = None,
    limit: Limit = None,
    cursor: Cursor = None,
) -> None:
    """Hold what should have happened against what did; exit status 1 when something is missing or unexpected."""
    from controller.cli import files, screen

    session = sessions.of(context)
    path = files.trigger_path(trigger)
    with session.client() as client:
        answer = _all(client, f"{path}/audit", limit, cursor, {"from": since, "to": to})
    if session.output is not sessions.Output.table:
        screen.document(session, answer)
    else:
        stretches = list(_stretches(answer["items"]))
        heading = ["KIND", "CAUSE", "FROM", "UNTIL", "COUNT"]
        screen.table([heading, *map(_row, stretches)], [_COLOURS.get(one[0]["kind"], "") for one in stretches])
        if answer["summary"]:
            screen.write(f"{_summary(answer['summary'])}\n")
        if answer["next_cursor"]:
            screen.note(f"there is more: go on with --cursor {answer['next_cursor']}, or take more with --limit")
    faulty = any(item["kind"] in FAULTS for item in answer["items"])
    if faulty or (answer["summary"] and not answer["summary"]["clean"]):
        raise typer.Exit(1)


@app.command()
def explain(
    context: typer.Context,
    trigger: TriggerName,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="An instant; left out, the newest.")] = None,
) -> None:
    """Say why a trigger fired at a time, or did not."""
    from controller.cli import files, screen

    session = sessions.of(context)
    path = files.trigger_path(trigger)
    with session.client() as client:
        answer = client.get(f"{path}/explain", at=at)
    if session.output is not sessions.Output.table:
        screen.document(session, answer)
        return
    for sentence in answer["sentences"]:
        screen.line(sentence)


def _all(client: "Client", path: str, limit: int | None, cursor: str | None, params: dict[str, Any]) -> dict[str, Any]:
    """The parts of an audit as one, with the summary of the first."""
    from controller.cli.client import MOST_AT_ONCE

    whole: dict[str, Any] = {}
    items: list[Any] = []
    while not whole or (cursor is not None and (limit is None or len(items) < limit)):
        at_once = MOST_AT_ONCE if limit is None else min(MOST_AT_ONCE, limit - len(items))
        part = client.get(path, limit=at_once, cursor=cursor, **params)
        whole = whole or part
        items += part["items"]
        cursor = part["next_cursor"]
        params = params | {"to": part["to"]}
    return {**whole, "items": items, "next_cursor": cursor}


def _stretches(items: list[Any]) -> Iterator[list[Any]]:
    """Consecutive occurrences of one kind and cause."""
    from itertools import groupby

    for _, group in groupby(items, key=lambda item: (item["kind"], _cause(item))):
        yield list(group)


def _row(stretch: list[Any]) -> list[str]:
    from controller.cli.screen import cell

    first, last = stretch[0], stretch[-1]
    told = (_label(first["kind"]), _cause(first), first["scheduled_at"], last["scheduled_at"], str(len(stretch)))
    return [cell(value) for value in told]


def _cause(item: Any) -> str:
    """Why, in words: outcome and reason of a skip, and what else there is to say."""
    return ", ".join(part for part in (item["outcome"], item["reason"]) if part)


def _summary(summary: Any) -> str:
    parts = [f"{summary[kind]} {_label(kind)}" for kind in _KINDS if summary[kind]]
    total = sum(summary[kind] for kind in _KINDS)
    return f"{total} occurrence{'' if total == 1 else 's'}" + (f": {', '.join(parts)}" if parts else "")


def _label(kind: str) -> str:
    return kind.replace("_", " ")
