"""The command that looks for what is not well."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import typer

from controller.cli import session as sessions
from controller.cli.session import Output

app = typer.Typer()

_STYLES: Mapping[str, str] = {"ok": "green", "warning": "yellow", "fault": "bold red"}


@app.command()
def doctor(context: typer.Context) -> None:
    """Look at the whole installation, and say what is not well; exit with 1 when there is a fault."""
    from controller.cli import screen
    from controller.errors import Exit

    session = sessions.of(context)
    with session.client() as client:
        answer = client.get("/doctor")
    if session.output is Output.table:
        _shown(answer["items"])
    else:
        screen.document(session, answer)
    if not answer["ok"]:
        raise typer.Exit(Exit.FAILED)


def _shown(checks: list[dict[str, Any]]) -> None:
    """One line for each, and beneath it what to do."""
    from controller.cli import screen

    width = max(len(check["name"]) for check in checks)
    level = max(map(len, _STYLES))
    for check in checks:
        lead = f"{check['level'].ljust(level)}  {check['name'].ljust(width)} "
        screen.line(check["detail"], sign=lead, style=_STYLES[check["level"]])
        if check["hint"] not in check["detail"]:
            screen.line(check["hint"], "dim", indent=len(lead) + 1)
    counts = Counter(check["level"] for check in checks)
    told = [screen.many(counts[name], name) for name in ("fault", "warning") if counts[name]]
    screen.line("")
    screen.line(f"{', '.join(told)}." if told else "All is well.", "bold")
