"""Commands for a folder: the difference between it and the server, and making it so (U-02, R-22)."""

import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from controller.cli import session as sessions
from controller.cli.session import Output
from controller.errors import Exit

if TYPE_CHECKING:
    from controller.cli.client import Client
    from controller.cli.folder import Folder
    from reconcile.report.plan import FolderPlan

app = typer.Typer()

CHANGES = 10
"""The exit status of `plan --exit-code` when something is to be done."""

Path = Annotated[str, typer.Argument(metavar="PATH", help="A folder with manifests, searched to its bottom.")]
Prune = Annotated[
    bool, typer.Option("--prune", help="Delete what was applied from this folder and is no longer in it.")
]
Origin = Annotated[
    str | None,
    typer.Option("--origin", metavar="NAME", help="The folder's name; left out, `origin` in its triggerctl.yaml."),
]


@app.command()
def plan(
    context: typer.Context,
    path: Path,
    prune: Prune = False,
    origin: Origin = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help=f"Exit with {CHANGES} when there is something to do.")
    ] = False,
) -> None:
    """Show what `apply` would do: nothing is changed."""
    from controller.cli import planned, screen

    session = sessions.of(context)
    folder = _folder(path, prune=prune, origin=origin)
    with session.client() as client:
        made = _plan(client, folder, prune=prune, origin=origin)
    if session.output is Output.table:
        planned.show(made)
    else:
        screen.document(session, planned.document(made))
    if exit_code and made.changes:
        raise typer.Exit(CHANGES)


@app.command()
def apply(
    context: typer.Context,
    path: Path,
    prune: Prune = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    origin: Origin = None,
) -> None:
    """Make the server what the folder says: show the plan, ask, then do it step by step."""
    from controller.cli import applying, planned, screen

    session = sessions.of(context)
    is_table = session.output is Output.table
    folder = _folder(path, prune=prune, origin=origin)
    with session.client() as client:
        made = _plan(client, folder, prune=prune, origin=origin)
        with nullcontext() if is_table else redirect_stdout(sys.stderr):
            planned.show(made)
        if made.changes and not yes:
            _ask(len(made.changes))
        steps = applying.Steps(client, made, says=_said if is_table else screen.note)
        steps.take()
    if not is_table:
        screen.document(session, steps.document())
    if status := steps.close():
        raise typer.Exit(status)


def _folder(path: str, *, prune: bool, origin: str | None) -> "Folder":
    """The folder, its origin known wherever it is needed. Raises Invalid, and usage errors."""
    from controller.cli import folder
    from revisions.errors import Invalid
    from revisions.ids import name_faults

    if origin is not None and (faults := name_faults("", origin=origin)):
        raise Invalid.at("--origin", faults[0].message, faults[0].hint)
    found = folder.read(path)
    if prune and origin is None and found.origin is None:
        _refuse(
            "--prune has to know which triggers were applied from this folder",
            f"write `origin: NAME` into {path}/{folder.SETTINGS}, or pass --origin NAME",
        )
    return found


def _plan(client: "Client", folder: "Folder", *, prune: bool, origin: str | None) -> "FolderPlan":
    """Raises Invalid and Conflict for what cannot be done, and a usage error for a folder that was emptied."""
    from controller.cli import screen, standing
    from reconcile.report import plan as rules
    from reconcile.report import plan_outlook

    called = origin or folder.origin
    server = standing.server(client, folder.declared, called)
    rules.check(folder.declared, server)
    made = rules.decide(folder.declared, server, called, prune=prune)
    deletions = sum(change.verb is rules.Verb.DELETE for change in made.changes)
    if deletions and not folder.has_triggers and origin is None:
        _refuse(
            f"{folder.path} holds no trigger any more, and --prune would delete all of {called}, {deletions} in number",
            f"if you mean that, repeat with --prune --origin {called}",
        )
    standing.check_ahead(client, made.changes)
    if not folder.declared:
        screen.note(f"there is no manifest in {folder.path}")
    made = replace(made, demanded=standing.demanded(client, made, server))
    made = replace(made, warnings=tuple(standing.warnings(client, made.changes)))
    return plan_outlook.explain(made, standing.pasts(client, made.changes))


def _said(text: str) -> None:
    """At once, also where the answer goes into a log."""
    from controller.cli import screen

    screen.line(text)
    sys.stdout.flush()


def _ask(count: int) -> None:
    """Goes on when a person says yes. Raises a usage error where there is nobody to ask."""
    from controller.cli import screen

    if not sys.stdin.isatty():
        _refuse(
            "nobody can be asked here, for standard input is not a terminal; nothing was changed",
            "read the plan, then repeat with --yes",
        )
    if not typer.confirm(f"Apply {'this step' if count == 1 else f'these {count} steps'}?", err=True):
        screen.note("nothing was changed")
        raise typer.Exit(1)


def _refuse(what: str, following: str) -> NoReturn:
    """The command was not given as it has to be."""
    from controller.cli import screen

    screen.note(f"error: {what}")
    screen.note(f"next: {following}")
    raise typer.Exit(Exit.USAGE)
