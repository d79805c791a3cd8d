"""The command that runs the controller."""

from enum import StrEnum
from typing import Annotated

import typer

from controller.cli import session as sessions
from controller.parts import PARTS

app = typer.Typer()


class Baseline(StrEnum):
    """From when on triggers fire."""

    now = "now"


@app.command()
def up(
    context: typer.Context,
    without: Annotated[str, typer.Option(metavar="PARTS", help=f"Leave out some of {','.join(PARTS)}.")] = "",
    listen: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where the API listens.")] = None,
    baseline: Annotated[
        Baseline | None, typer.Option(help="After a restore: record what the lost time would have fired, fire nothing.")
    ] = None,
) -> None:
    """Run the controller: API, web page, loop and runner in one process, until it is told to stop."""
    session = sessions.of(context)
    if session.server:
        raise typer.BadParameter("up works on a database: pass --database-url, not --server")
    left_out = frozenset(part.strip() for part in without.split(",") if part.strip())
    if unknown := sorted(left_out - set(PARTS)):
        raise typer.BadParameter(f"{', '.join(unknown)} is no part; there are {', '.join(PARTS)}")
    if left_out == set(PARTS) and baseline is None:
        raise typer.BadParameter("nothing would run: leave out three parts at most")
    settings = session.settings(listen=listen)
    from controller.serve import run

    run(settings, without=left_out, is_restored=baseline is not None)
