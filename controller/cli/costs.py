"""The command that says what was spent."""

from enum import StrEnum
from typing import Annotated

import typer

from controller.cli import session as sessions

app = typer.Typer()


class By(StrEnum):
    """What costs are summed by."""

    trigger = "trigger"
    tag = "tag"
    project = "project"


@app.command()
def costs(
    context: typer.Context,
    by: Annotated[By, typer.Option(help="Sum by trigger, tag or project.")] = By.trigger,
    since: Annotated[str | None, typer.Option("--from", metavar="TIME", help="From this instant on.")] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Before this instant; left out, now.")] = None,
    project: Annotated[str | None, typer.Option(help="Of this project alone.")] = None,
) -> None:
    """Show what runs cost, the dearest first."""
    from controller.cli import screen

    session = sessions.of(context)
    with session.client() as client:
        answer = client.get("/costs", by=by.value, **{"from": since, "to": to, "project": project})
    if session.output is not sessions.Output.table:
        screen.document(session, answer)
        return
    rows = [[screen.cell(one["name"]), f"{one['cost']:g}", str(one["runs"])] for one in answer["items"]]
    screen.table([[by.value.upper(), "COST", "RUNS"], *rows])
    screen.write(f"{answer['cost']:g} in {answer['runs']} run{'' if answer['runs'] == 1 else 's'}\n")
