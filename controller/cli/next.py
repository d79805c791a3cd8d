"""The command for looking ahead."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any

import typer

from controller.cli import session as sessions
from revisions.outcomes import HoldKind

app = typer.Typer()

HELD = tuple(HoldKind)
"""Reasons that end: what they hold may start then."""
SHOWN = 3
"""Up to so many wall times that are left out for one reason are named one by one."""


@app.command("next")
def ahead(
    context: typer.Context,
    trigger: Annotated[str | None, typer.Argument(metavar="T", help="project/domain/task/name")] = None,
    file: Annotated[str | None, typer.Option(metavar="FILE", help="A file with one Trigger, not deployed.")] = None,
    n: Annotated[int, typer.Option("-n", min=1, max=1000, help="How many fires.")] = 10,
    after: Annotated[str | None, typer.Option(metavar="TIME", help="Later than this instant; left out, now.")] = None,
) -> None:
    """Show the next fires of a trigger or of a file, and what a gap, a fold, a calendar or a blackout leaves out."""
    if (trigger is None) == (file is None):
        raise typer.BadParameter("name either a trigger or a --file")
    from controller.cli import files, screen

    session = sessions.of(context)
    if trigger is not None:
        path = files.trigger_path(trigger)
        with session.client() as client:
            answer = client.get(f"{path}/next", n=n, after=after)
    else:
        assert file is not None
        document = files.one(file, "Trigger", "a task by itself never fires")
        with files.about(files.called(file)), session.client() as client:
            answer = client.post("/next", document, n=n, after=after)
    if inactive := answer.get("inactive"):
        screen.note(_inactive(str(trigger), inactive))
    if session.output is not sessions.Output.table:
        screen.document(session, answer)
        return
    columns = {"LOCAL": "local", "UTC": "utc", "FIRES AT": "fires_at", "ID": "id"}
    if not any("fires_at" in fire for fire in answer["fires"]):
        del columns["FIRES AT"]
    screen.table([[*columns], *([fire[name] for name in columns.values()] for fire in answer["fires"])])
    for reason, group in groupby(answer["skipped"], key=lambda missed: missed["reason"]):
        word = "held" if reason in HELD else "left out"
        screen.line(f"{word}: {_stretch([missed['local'] for missed in group])} ({reason})")


def _inactive(trigger: str, said: Mapping[str, Any]) -> str:
    why = f" ({said['reason']})" if said["reason"] else ""
    if until := said["paused_until"]:
        return f"{trigger} is paused until {until}{why}: what falls before that does not fire"
    return f"{trigger} is not active{why}: it would fire at these times; `triggerctl activate {trigger}` resumes it"


def _stretch(times: Sequence[str]) -> str:
    """Wall times one after the other; more than a few in short."""
    if len(times) <= SHOWN:
        return ", ".join(times)
    return f"{len(times):,} from {times[0]} to {times[-1]}"
