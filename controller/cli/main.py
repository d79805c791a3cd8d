"""The `triggerctl` command: global options, registration of all commands, and the exit status of errors."""

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
    calendars,
    fire,
    history,
    holds,
    installation,
    lifecycle,
    reports,
    runs,
    schedule,
    tasks,
    tokens,
    triggers,
    verification,
)
from controller.cli.folders import commands as folders
from controller.cli.session import OutputFormat, Session

app = typer.Typer(
    name="triggerctl",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Manage triggers with immutable revisions, and start one run per occurrence.",
)


def _register(panel: str, *modules: ModuleType, **groups: typer.Typer) -> None:
    """Add the commands of modules, and groups of commands by name, below one heading of the help."""
    for module in modules:
        for command in module.app.registered_commands:
            command.rich_help_panel = panel
        app.add_typer(module.app)
    for name, group in groups.items():
        app.add_typer(group, name=name, rich_help_panel=panel)


_register("Installation", installation, db=installation.schema_commands, token=tokens.app)
_register("Tasks and triggers", triggers, folders, lifecycle, history, task=tasks.app, calendar=calendars.app)
_register("Schedules and reports", schedule, reports)
_register("Runs", fire, runs=runs.app)
_register("Freezes and blackouts", holds, blackout=holds.blackouts)
_register("Integrity of histories", verification)

atexit.register(gc.freeze)
"""Skips Python's garbage collections at exit, which would take a quarter of a command's time."""

GLOBAL_OPTIONS = ("--database-url", "--server", "--token", "--output", "--actor")


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from controller.settings import VERSION

        typer.echo(f"triggerctl {VERSION}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    database_url: Annotated[
        str | None, typer.Option(help="Database: sqlite:///file.db or postgresql://user@host/database.")
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(envvar="TRIGGERCTL_SERVER", help="URL of a running controller, used instead of its database."),
    ] = None,
    token: Annotated[str | None, typer.Option(envvar="TRIGGERCTL_TOKEN", help="Token sent to the --server.")] = None,
    output: Annotated[OutputFormat, typer.Option(help="Format of the answer.")] = OutputFormat.table,
    actor: Annotated[str | None, typer.Option(help="Name recorded as the actor; default the system user.")] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if database_url is not None and server is not None:
        if context.get_parameter_source("server").name == "COMMANDLINE":  # type: ignore[union-attr]  # it is known
            raise typer.BadParameter("--database-url and --server exclude each other")
        server = None
    if actor is not None and server is not None:
        raise typer.BadParameter("with --server the token decides the actor, not --actor")
    context.obj = Session(database_url, server, token, output, actor)


def global_options_first(arguments: Sequence[str]) -> list[str]:
    """Move the global options to the front, so that `triggerctl list --output json` works too."""
    first: list[str] = []
    rest: list[str] = []
    pending = list(arguments)
    while pending:
        argument = pending.pop(0)
        if argument == "--":
            return [*first, *rest, argument, *pending]
        if argument in GLOBAL_OPTIONS and pending:
            first += [argument, pending.pop(0)]
        elif argument.startswith(tuple(f"{name}=" for name in GLOBAL_OPTIONS)):
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
    """Run one command and exit with its status."""
    try:
        _command()(global_options_first(sys.argv[1:] if arguments is None else arguments), prog_name="triggerctl")
    except Exception as error:  # noqa: BLE001  # every error ends here, as a message and an exit status
        from controller.cli.error_messages import report_error

        sys.exit(report_error(error))


if __name__ == "__main__":
    main()
