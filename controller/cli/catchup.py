"""The command for backlogs: what is left to catch up, giving it up, and a watermark that is ahead of now."""

from typing import Annotated, Any

import typer

from controller.cli import session as sessions
from controller.cli.session import Output, Reason, Session, TriggerName

app = typer.Typer()

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60))


@app.command()
def catchup(
    context: typer.Context,
    trigger: TriggerName,
    drop: Annotated[bool, typer.Option("--drop", help="Give up what is left; recorded.")] = False,
    rebase: Annotated[
        bool, typer.Option("--rebase", help="Set a watermark ahead of now back to now; recorded.")
    ] = False,
    reason: Reason = None,
) -> None:
    """Show what a trigger has to catch up and about when that ends; or give it up."""
    if drop and rebase:
        raise typer.BadParameter("--drop gives a backlog up, --rebase sets a watermark back: name one of them")
    if reason is not None and not (drop or rebase):
        raise typer.BadParameter("--reason goes with --drop or --rebase")
    from controller.cli import files
    from controller.cli.triggers import changed

    session = sessions.of(context)
    path, said = f"{files.trigger_path(trigger)}/catchup", {"reason": reason} if reason is not None else {}
    with session.client() as client:
        if rebase:
            changed(session, client.post(f"{path}/rebase", said))
        elif drop:
            _shown(session, client.post(f"{path}/drop", said))
        else:
            _shown(session, client.get(path))


def _shown(session: Session, answer: dict[str, Any]) -> None:
    from controller.cli import screen

    if session.output is not Output.table:
        screen.document(session, answer)
        return
    screen.facts(session, answer, {"trigger": "trigger", "watermark": "watermark"})
    for part in answer["ranges"]:
        screen.line(f"still to catch up: later than {screen.cell(part['after'])}, up to {screen.cell(part['until'])}")
    if dropped := answer.get("dropped"):
        count = "more than 1,000" if dropped["count"] is None else f"{dropped['count']:,}"
        screen.line(f"given up: {count} from {dropped['scheduled_at']} to {dropped['scheduled_until']}")
    screen.line(_sentence(answer))


def _sentence(answer: dict[str, Any]) -> str:
    """How much is left and for how long, or why nothing happens."""
    from controller.cli.screen import cell

    if answer["is_ahead"]:
        back = f"`triggerctl catchup {answer['trigger']} --rebase`"
        return f"The watermark is ahead of now, and nothing fires until then: {back} sets it back."
    if not answer["ranges"]:
        return "Nothing is left to catch up."
    remaining = answer["remaining"]
    left = "More than 1,000,000 occurrences" if remaining is None else _many(remaining, "occurrence")
    if held := answer["held"]:
        ends = f"until {cell(held['until'])}" if held["until"] else "until somebody lifts it"
        return f"{left} left; a {held['kind']} by {held['owner']} holds them {ends} ({held['reason']})."
    if answer["takes_seconds"] is None:
        return f"{left} left; when they end cannot be said."
    return f"{left} left, about {_about(answer['takes_seconds'])} at the present pace."


def _about(seconds: float) -> str:
    """A span in its largest unit that it holds at least twice, or else the next: `6 minutes`, `30 hours`."""
    for name, unit in _UNITS:
        if seconds >= 2 * unit:
            return _many(round(seconds / unit), name)
    return "a minute" if seconds >= 60 else _many(max(1, round(seconds)), "second")


def _many(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
