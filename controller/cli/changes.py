"""The command for the change feed."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli import session as sessions
from controller.cli.session import Limit, Output, Session

if TYPE_CHECKING:
    from controller.cli.client import Client

app = typer.Typer()

LOOK_SECONDS = 1.0


@app.command()
def changes(
    context: typer.Context,
    after: Annotated[
        str | None, typer.Option(metavar="POSITION", help="Where to go on; left out, the beginning.")
    ] = None,
    limit: Limit = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on as changes come, until Ctrl-C.")] = False,
) -> None:
    """List what changed since a position, oldest first; it may tell a change twice, and misses none."""
    from controller.cli import screen

    session = sessions.of(context)
    if follow and limit is not None:
        raise typer.BadParameter("--follow has no end, so it takes no --limit")
    with session.client() as client:
        if follow:
            _follow(session, client, after)
            return
        found = list(_parts(client, after, limit))
    answer = {"items": [item for part in found for item in part["items"]], "next_cursor": found[-1]["next_cursor"]}
    if session.output is not Output.table:
        screen.document(session, answer)
        return
    screen.table([["AT", "TRIGGER", "REVISION"], *(_cells(item) for item in answer["items"])])
    _tell(answer["next_cursor"])


def _parts(client: "Client", after: str | None, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """The feed from a position on, until there is no more at once or `limit` changes are read."""
    from controller.cli.client import MOST_AT_ONCE

    while True:
        at_once = MOST_AT_ONCE if limit is None else min(MOST_AT_ONCE, limit)
        part = client.get("/changes", after=after, limit=at_once)
        yield part
        after = part["next_cursor"]
        if limit is not None:
            limit -= len(part["items"])
        if len(part["items"]) < at_once or limit == 0:
            return


def _follow(session: Session, client: "Client", after: str | None) -> None:
    """A line for each change as it comes. What a look told that the next tells again is left out."""
    told: set[tuple[str, int, str]] = set()
    try:
        while True:
            looked: set[tuple[str, int, str]] = set()
            for part in _parts(client, after):
                for item in part["items"]:
                    change = (item["trigger"], item["revision"], item["at"])
                    if change not in told:
                        _line(session, item)
                    looked.add(change)
                after = part["next_cursor"]
            told = looked
            time.sleep(LOOK_SECONDS)
    except (KeyboardInterrupt, BrokenPipeError):  # whoever reads has heard enough
        pass
    finally:
        _tell(after)


def _line(session: Session, item: dict[str, Any]) -> None:
    import json
    import sys

    from controller.cli import screen

    text = "  ".join(_cells(item)) if session.output is Output.table else json.dumps(item, ensure_ascii=False)
    screen.write(f"{text}\n")
    sys.stdout.flush()


def _cells(item: dict[str, Any]) -> list[str]:
    from controller.cli.screen import cell

    return [cell(item[name]) for name in ("at", "trigger", "revision")]


def _tell(position: str | None) -> None:
    from controller.cli import screen

    if position is not None:
        screen.note(f"go on with --after {position}")
