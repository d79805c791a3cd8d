"""Commands that read the past of triggers: revisions, differences between two of them, and the change feed."""

import json
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli import output
from controller.cli.session import Cursor, Limit, OutputFormat, Session, TriggerName, current_session

if TYPE_CHECKING:
    from controller.cli.client import Client

app = typer.Typer()

POLL_SECONDS = 1.0
"""Interval at which `changes --follow` asks for new changes."""
_COLOURS = {"added": "green", "removed": "red", "changed": "yellow"}


@app.command()
def history(context: typer.Context, trigger: TriggerName, limit: Limit = None, cursor: Cursor = None) -> None:
    """List the revisions of a trigger, newest first."""
    from controller.cli import arguments

    session = current_session(context)
    path = arguments.trigger_path(trigger)
    with session.client() as client:
        answer = client.list_items(f"{path}/revisions", limit, cursor)
    columns = ("revision", "action", "active", "actor", "at", "reason", "until")
    output.print_list(session, answer, {name.upper(): name for name in columns})


@app.command()
def diff(
    context: typer.Context,
    trigger: TriggerName,
    a: Annotated[int, typer.Argument(metavar="A", min=1, help="Revision to compare from.")],
    b: Annotated[int, typer.Argument(metavar="B", min=1, help="Revision to compare to.")],
) -> None:
    """Show the differences between two revisions of a trigger, by path."""
    from controller.cli import arguments

    session = current_session(context)
    path = arguments.trigger_path(trigger)
    with session.client() as client:
        answer = client.get(f"{path}/diff", **{"from": a, "to": b})
    differences = answer["differences"]
    if session.output is not OutputFormat.table:
        output.print_document(session, answer)
    elif not differences:
        output.write("no difference\n")
    else:
        rows = [[item["path"], item["kind"], _value(item, "before"), _value(item, "after")] for item in differences]
        output.print_table([["PATH", "KIND", str(a), str(b)], *rows], [_COLOURS[item["kind"]] for item in differences])


@app.command()
def changes(
    context: typer.Context,
    after: Annotated[
        str | None, typer.Option(metavar="POSITION", help="Start after this position; default the beginning.")
    ] = None,
    limit: Limit = None,
    follow: Annotated[bool, typer.Option("--follow", help="Keep printing changes as they come, until Ctrl-C.")] = False,
) -> None:
    """List the changes of all triggers since a position, oldest first. A change may appear twice; none is missed."""
    session = current_session(context)
    if follow and limit is not None:
        raise typer.BadParameter("--follow has no end, so it takes no --limit")
    with session.client() as client:
        if follow:
            _follow_changes(session, client, after)
            return
        pages = list(_change_pages(client, after, limit))
    answer = {"items": [item for page in pages for item in page["items"]], "next_cursor": pages[-1]["next_cursor"]}
    if session.output is not OutputFormat.table:
        output.print_document(session, answer)
        return
    output.print_table([["AT", "TRIGGER", "REVISION"], *(_change_cells(item) for item in answer["items"])])
    _note_position(answer["next_cursor"])


def _value(difference: Any, side: str) -> str:
    """Return one side as JSON, so that the string `1` differs from the number; `-` if that side has no value."""
    absent_side = {"added": "before", "removed": "after"}.get(difference["kind"])
    if side == absent_side:
        return "-"
    return output.escape_unprintable(json.dumps(difference[side], ensure_ascii=False))


def _change_pages(client: "Client", after: str | None, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """Read the feed from a position until its present end, or until `limit` changes are read."""
    from controller.cli.client import MAX_PAGE_SIZE

    while True:
        page_size = MAX_PAGE_SIZE if limit is None else min(MAX_PAGE_SIZE, limit)
        page = client.get("/changes", after=after, limit=page_size)
        yield page
        after = page["next_cursor"]
        if limit is not None:
            limit -= len(page["items"])
        if len(page["items"]) < page_size or limit == 0:
            return


def _follow_changes(session: Session, client: "Client", after: str | None) -> None:
    """Print each change as it comes. The feed may repeat changes of the poll before; those are left out."""
    printed: set[tuple[str, int, str]] = set()
    try:
        while True:
            polled: set[tuple[str, int, str]] = set()
            for page in _change_pages(client, after):
                for item in page["items"]:
                    change = (item["trigger"], item["revision"], item["at"])
                    if change not in printed:
                        _print_change(session, item)
                    polled.add(change)
                after = page["next_cursor"]
            printed = polled
            time.sleep(POLL_SECONDS)
    except (KeyboardInterrupt, BrokenPipeError):  # the reader has stopped
        pass
    finally:
        _note_position(after)


def _print_change(session: Session, item: dict[str, Any]) -> None:
    is_table = session.output is OutputFormat.table
    text = "  ".join(_change_cells(item)) if is_table else json.dumps(item, ensure_ascii=False)
    output.write(f"{text}\n")
    sys.stdout.flush()


def _change_cells(item: dict[str, Any]) -> list[str]:
    return [output.format_cell(item[name]) for name in ("at", "trigger", "revision")]


def _note_position(position: str | None) -> None:
    if position is not None:
        output.write_note(f"go on with --after {position}")
