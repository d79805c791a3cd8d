"""The commands `plan` and `apply`."""

import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from controller.cli import output
from controller.cli.session import OutputFormat, current_session
from controller.errors import Exit

if TYPE_CHECKING:
    from controller.cli.client import Client
    from controller.cli.folders.manifests import ManifestFolder
    from reconcile.report.plan import FolderPlan

app = typer.Typer()

CHANGES_PENDING = 10
"""Exit status of `plan --exit-code` if there are changes."""

FolderPath = Annotated[str, typer.Argument(metavar="PATH", help="Folder of manifests, searched recursively.")]
Prune = Annotated[
    bool, typer.Option("--prune", help="Delete triggers that were applied from this folder and are no longer in it.")
]
Origin = Annotated[
    str | None,
    typer.Option("--origin", metavar="NAME", help="Name of the folder; default `origin` in its triggerctl.yaml."),
]


@app.command()
def plan(
    context: typer.Context,
    path: FolderPath,
    prune: Prune = False,
    origin: Origin = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help=f"Exit with {CHANGES_PENDING} if there are changes.")
    ] = False,
) -> None:
    """Show what `apply` would change. Nothing is changed."""
    from controller.cli.folders import steps

    session = current_session(context)
    folder = _read_folder(path, prune=prune, origin=origin)
    with session.client() as client:
        made = make_plan(client, folder, prune=prune, origin=origin)
    if session.output is OutputFormat.table:
        steps.print_plan(made)
    else:
        output.print_document(session, steps.plan_document(made))
    if exit_code and made.changes:
        raise typer.Exit(CHANGES_PENDING)


@app.command()
def apply(
    context: typer.Context,
    path: FolderPath,
    prune: Prune = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Apply without asking.")] = False,
    origin: Origin = None,
) -> None:
    """Apply a folder of manifests: show the plan, ask, then carry out each step."""
    from controller.cli.folders import steps

    session = current_session(context)
    is_table = session.output is OutputFormat.table
    folder = _read_folder(path, prune=prune, origin=origin)
    with session.client() as client:
        made = make_plan(client, folder, prune=prune, origin=origin)
        with nullcontext() if is_table else redirect_stdout(sys.stderr):
            steps.print_plan(made)
        if made.changes and not yes:
            _confirm(len(made.changes))
        results = []
        for result in steps.apply_plan(client, made):
            results.append(result)
            _report_step(steps.describe(result), is_table=is_table)
    if not is_table:
        output.print_document(session, steps.results_document(made, results))
    for line in steps.undo_hints(results):
        output.write_note(line)
    if lost := steps.lost_connection(results):
        raise lost
    if failure := steps.failure_note(results):
        output.write_note(f"error: {failure}")
        output.write_note("next: see `triggerctl plan`, then apply again; completed steps stay completed")
        raise typer.Exit(steps.exit_status(results))


def make_plan(client: "Client", folder: "ManifestFolder", *, prune: bool, origin: str | None) -> "FolderPlan":
    """Compare a folder with the server.

    Raises Invalid and Conflict for what the server would refuse, and a usage error if --prune would delete every
    trigger of an emptied folder.
    """
    from controller.cli.folders import server_state
    from reconcile.report import outlook
    from reconcile.report.plan import Verb, check, decide

    name = origin or folder.origin
    state = server_state.read(client, folder.declared, name)
    check(folder.declared, state)
    made = decide(folder.declared, state, name, prune=prune)
    deletions = sum(change.verb is Verb.DELETE for change in made.changes)
    if deletions and not folder.has_triggers and origin is None:
        _fail_usage(
            f"{folder.path} holds no trigger any more, and --prune would delete all {deletions} of {name}",
            f"if you mean that, repeat with --prune --origin {name}",
        )
    server_state.check_schedules(client, made.changes)
    if not folder.declared:
        output.write_note(f"there is no manifest in {folder.path}")
    made = replace(made, demanded=server_state.read_demand(client, made, state))
    made = replace(made, warnings=tuple(server_state.read_warnings(client, made.changes)))
    return outlook.explain(made, server_state.read_origins(client, made.changes))


def _read_folder(path: str, *, prune: bool, origin: str | None) -> "ManifestFolder":
    """Read a folder. Raises Invalid, and a usage error if --prune does not know the folder's name."""
    from controller.cli.folders import manifests
    from revisions.errors import Invalid
    from revisions.ids import name_faults

    if origin is not None and (faults := name_faults("", origin=origin)):
        raise Invalid.at("--origin", faults[0].message, faults[0].hint)
    folder = manifests.read(path)
    if prune and origin is None and folder.origin is None:
        _fail_usage(
            "--prune has to know which triggers were applied from this folder",
            f"write `origin: NAME` into {path}/{manifests.SETTINGS_FILE}, or pass --origin NAME",
        )
    return folder


def _report_step(text: str, *, is_table: bool) -> None:
    if is_table:
        output.print_line(text)
        sys.stdout.flush()  # each step appears at once, also if the output goes into a log
    else:
        output.write_note(text)


def _confirm(count: int) -> None:
    """Return if a person confirms the plan. Raises a usage error if standard input is not a terminal."""
    if not sys.stdin.isatty():
        _fail_usage(
            "the plan cannot be confirmed, because standard input is not a terminal; nothing was changed",
            "read the plan, then repeat with --yes",
        )
    if not typer.confirm(f"Apply {'this step' if count == 1 else f'these {count} steps'}?", err=True):
        output.write_note("nothing was changed")
        raise typer.Exit(1)


def _fail_usage(message: str, next_step: str) -> NoReturn:
    output.write_note(f"error: {message}")
    output.write_note(f"next: {next_step}")
    raise typer.Exit(Exit.USAGE)
