"""Commands about a trigger's schedule: the fires ahead, and the backlog of occurrences to catch up."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any

import typer

from controller.cli import output
from controller.cli.session import OutputFormat, Reason, Session, TriggerName, current_session

app = typer.Typer()

HOLDS = ("freeze", "blackout")
"""Reasons that end; the occurrences that they hold may start afterwards."""
MAX_LISTED_TIMES = 3
"""Number of skipped times up to which they are listed; more are summarised."""
_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60))


@app.command("next")
def next_fires(
    context: typer.Context,
    trigger: Annotated[str | None, typer.Argument(metavar="T", help="Trigger: project/domain/task/name.")] = None,
    file: Annotated[str | None, typer.Option(metavar="FILE", help="File with one Trigger, not deployed.")] = None,
    n: Annotated[int, typer.Option("-n", min=1, max=1000, help="Number of fires.")] = 10,
    after: Annotated[str | None, typer.Option(metavar="TIME", help="Only fires later than this; default now.")] = None,
) -> None:
    """Show the next fires of a trigger or a manifest, and the times that a clock change, calendar or hold skips."""
    if (trigger is None) == (file is None):
        raise typer.BadParameter("name either a trigger or a --file")
    from controller.cli import arguments

    session = current_session(context)
    if trigger is not None:
        path = arguments.trigger_path(trigger)
        with session.client() as client:
            answer = client.get(f"{path}/next", n=n, after=after)
    else:
        assert file is not None
        document = arguments.read_manifest(file, "Trigger", "a task by itself never fires")
        with arguments.errors_name_file(arguments.display_name(file)), session.client() as client:
            answer = client.post("/next", document, n=n, after=after)
    if inactive := answer.get("inactive"):
        output.write_note(_inactive_note(str(trigger), inactive))
    if session.output is not OutputFormat.table:
        output.print_document(session, answer)
        return
    columns = {"LOCAL": "local", "UTC": "utc", "FIRES AT": "fires_at", "ID": "id"}
    if not any("fires_at" in fire for fire in answer["fires"]):
        del columns["FIRES AT"]
    output.print_table([[*columns], *([fire[name] for name in columns.values()] for fire in answer["fires"])])
    for reason, group in groupby(answer["skipped"], key=lambda skipped: skipped["reason"]):
        word = "held" if reason in HOLDS else "left out"
        output.print_line(f"{word}: {_summarize_times([skipped['local'] for skipped in group])} ({reason})")


@app.command()
def catchup(
    context: typer.Context,
    trigger: TriggerName,
    drop: Annotated[bool, typer.Option("--drop", help="Drop the backlog; this is recorded.")] = False,
    rebase: Annotated[
        bool, typer.Option("--rebase", help="Set a watermark in the future back to now; this is recorded.")
    ] = False,
    reason: Reason = None,
) -> None:
    """Show the backlog of a trigger and about when it will be done; or drop it."""
    if drop and rebase:
        raise typer.BadParameter("--drop gives a backlog up, --rebase sets a watermark back: name one of them")
    if reason is not None and not (drop or rebase):
        raise typer.BadParameter("--reason goes with --drop or --rebase")
    from controller.cli import arguments
    from controller.cli.client import without_none
    from controller.cli.triggers import print_changed_trigger

    session = current_session(context)
    path, body = f"{arguments.trigger_path(trigger)}/catchup", without_none(reason=reason)
    with session.client() as client:
        if rebase:
            print_changed_trigger(session, client.post(f"{path}/rebase", body))
        elif drop:
            _print_backlog(session, client.post(f"{path}/drop", body))
        else:
            _print_backlog(session, client.get(path))


def _inactive_note(trigger: str, inactive: Mapping[str, Any]) -> str:
    reason = f" ({inactive['reason']})" if inactive["reason"] else ""
    if until := inactive["paused_until"]:
        return f"{trigger} is paused until {until}{reason}: what falls before that does not fire"
    return f"{trigger} is not active{reason}: it would fire at these times; `triggerctl activate {trigger}` resumes it"


def _summarize_times(times: Sequence[str]) -> str:
    if len(times) <= MAX_LISTED_TIMES:
        return ", ".join(times)
    return f"{len(times):,} from {times[0]} to {times[-1]}"


def _print_backlog(session: Session, answer: dict[str, Any]) -> None:
    if session.output is not OutputFormat.table:
        output.print_document(session, answer)
        return
    output.print_fields(session, answer, {"trigger": "trigger", "watermark": "watermark"})
    for part in answer["ranges"]:
        after, until = output.format_cell(part["after"]), output.format_cell(part["until"])
        output.print_line(f"still to catch up: later than {after}, up to {until}")
    if dropped := answer.get("dropped"):
        count = "more than 1,000" if dropped["count"] is None else f"{dropped['count']:,}"
        output.print_line(f"dropped: {count} from {dropped['scheduled_at']} to {dropped['scheduled_until']}")
    output.print_line(_backlog_sentence(answer))


def _backlog_sentence(answer: dict[str, Any]) -> str:
    """Return how much is left and how long it takes, or why nothing happens."""
    if answer["is_ahead"]:
        command = f"`triggerctl catchup {answer['trigger']} --rebase`"
        return f"The watermark is ahead of now, and nothing fires until then: {command} sets it back."
    if not answer["ranges"]:
        return "Nothing is left to catch up."
    remaining = answer["remaining"]
    left = "More than 1,000,000 occurrences" if remaining is None else output.count_of(remaining, "occurrence")
    if hold := answer["held"]:
        end = f"until {output.format_cell(hold['until'])}" if hold["until"] else "until somebody lifts it"
        return f"{left} left; a {hold['kind']} by {hold['owner']} holds them {end} ({hold['reason']})."
    if answer["takes_seconds"] is None:
        return f"{left} left; the time that they take cannot be estimated."
    return f"{left} left, about {_rough_span(answer['takes_seconds'])} at the present pace."


def _rough_span(seconds: float) -> str:
    """Return a span in the largest unit of which it holds at least two: `6 minutes`, `30 hours`."""
    for name, unit in _UNITS:
        if seconds >= 2 * unit:
            return output.count_of(round(seconds / unit), name)
    return "a minute" if seconds >= 60 else output.count_of(max(1, round(seconds)), "second")
