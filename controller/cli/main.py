"""The `triggerctl` command: global options, the commands of each resource, and how every error ends."""

import atexit
import gc
import sys
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Annotated

import typer
from typer.core import TyperGroup
from typer.main import get_command

from controller.cli import (
    audit,
    byhand,
    calendars,
    catchup,
    changes,
    changing,
    costs,
    db,
    deadlines,
    doctor,
    histories,
    history,
    holds,
    next,
    plan,
    runs,
    states,
    tasks,
    tokens,
    triggers,
    up,
)
from controller.cli.session import Output, Session

app = typer.Typer(
    name="triggerctl",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Triggers with immutable revisions, a reconcile loop, and runs that happen once.",
)


def _add(panel: str, *resources: ModuleType, **groups: typer.Typer) -> None:
    """Commands, and groups of them by name, below one heading of the help."""
    for resource in resources:
        for command in resource.app.registered_commands:
            command.rich_help_panel = panel
        app.add_typer(resource.app)
    for name, group in groups.items():
        app.add_typer(group, name=name, rich_help_panel=panel)


_add("The controller", up, doctor, db=db.app, token=tokens.app)
_add("Tasks and triggers", triggers, plan, changing, history, changes, task=tasks.app, calendar=calendars.app)
_add("When triggers fire", next, audit, catchup, deadlines, states)
_add("Runs", byhand, costs, runs=runs.app)
_add("Times without a start", holds, blackout=holds.blackouts)
_add("Whether history is true", histories)

atexit.register(gc.freeze)
"""Python would look through all that was loaded, several times, before it ends: a quarter of a command's time."""

GLOBAL = ("--database-url", "--server", "--token", "--output", "--actor")


def _version(wanted: bool) -> None:
    if wanted:
        from controller.version import VERSION

        typer.echo(f"triggerctl {VERSION}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    database_url: Annotated[
        str | None, typer.Option(help="sqlite:///file.db or postgresql://user@host/database.")
    ] = None,
    server: Annotated[
        str | None, typer.Option(envvar="TRIGGERCTL_SERVER", help="A running controller, instead of its database.")
    ] = None,
    token: Annotated[str | None, typer.Option(envvar="TRIGGERCTL_TOKEN", help="For --server.")] = None,
    output: Annotated[Output, typer.Option(help="How the answer is written.")] = Output.table,
    actor: Annotated[str | None, typer.Option(help="Who acts; left out, the system user.")] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if database_url is not None and server is not None:
        if context.get_parameter_source("server").name == "COMMANDLINE":  # type: ignore[union-attr]  # it is known
            raise typer.BadParameter("--database-url and --server exclude each other")
        server = None
    if actor is not None and server is not None:
        raise typer.BadParameter("with --server the token says who acts, not --actor")
    context.obj = Session(database_url, server, token, output, actor)


def hoisted(arguments: Sequence[str]) -> list[str]:
    """The arguments with the global options first, so that `triggerctl list --output json` works too."""
    first: list[str] = []
    rest: list[str] = []
    pending = list(arguments)
    while pending:
        argument = pending.pop(0)
        if argument == "--":
            return [*first, *rest, argument, *pending]
        if argument in GLOBAL and pending:
            first += [argument, pending.pop(0)]
        elif argument.startswith(tuple(f"{name}=" for name in GLOBAL)):
            first.append(argument)
        else:
            rest.append(argument)
    return first + rest


@cache
def _command() -> TyperGroup:
    command = get_command(app)
    assert isinstance(command, TyperGroup)
    return command


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command and exits with its status."""
    try:
        _command()(hoisted(sys.argv[1:] if arguments is None else arguments), prog_name="triggerctl")
    except Exception as error:  # noqa: BLE001  # here every error ends, as a message and a status
        from controller.cli.failures import tell

        sys.exit(tell(error))


if __name__ == "__main__":
    main()
