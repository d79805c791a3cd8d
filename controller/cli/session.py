"""The global options of one invocation, and the options that several commands share."""

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from revisions.errors import Invalid
from revisions.history.triggers import SYSTEM

if TYPE_CHECKING:
    from controller.cli.client import Client
    from controller.settings import Settings


class OutputFormat(StrEnum):
    """Values of `--output`; the member names are what users type."""

    table = "table"
    json = "json"
    yaml = "yaml"


@dataclass(frozen=True, slots=True)
class Session:
    """The global options of one invocation."""

    database_url: str | None
    server: str | None
    token: str | None
    output: OutputFormat
    actor: str | None

    @contextmanager
    def client(self) -> Iterator["Client"]:
        """Open a client of the HTTP application: over the network with --server, otherwise in this process."""
        from controller.cli import client

        if self.server:
            with client.over_network(self.server, self.token) as connected:
                yield connected
        else:
            with client.in_process(self.settings(), self.actor_name()) as connected:
                yield connected

    def settings(self, **overrides: Any) -> "Settings":
        """Load the settings, for commands that work without a server. Raises Invalid."""
        from controller import settings

        return settings.load(database_url=self.database_url, **overrides)

    def actor_name(self) -> str:
        """Return --actor, or else the system user. Raises Invalid for a bad name and for the product's own name."""
        name = self.actor if self.actor is not None else _system_user()
        if not name.strip() or not name.isprintable() or len(name) > 255:
            raise Invalid.at("--actor", f"{name!r} is not a name", "1 to 255 printable characters")
        if name == SYSTEM:
            raise Invalid.at("--actor", f"{name!r} is what triggerctl itself is called", "name a person with --actor")
        return name


def _system_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return f"uid-{os.getuid()}"


def current_session(context: typer.Context) -> Session:
    """Return the session that the root command stored in the context."""
    session = context.find_object(Session)
    assert session is not None
    return session


ByProject = Annotated[str | None, typer.Option("--project", metavar="P", help="Only items of this project.")]
ByDomain = Annotated[str | None, typer.Option("--domain", metavar="D", help="Only items of this domain.")]
ByTask = Annotated[str | None, typer.Option("--task", metavar="N", help="Only items of the task with this name.")]
IdempotencyKey = Annotated[
    str | None,
    typer.Option("--idempotency-key", metavar="K", help="Repeat with the same key to retry without a second effect."),
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Maximum number of items; default all.")]
Cursor = Annotated[
    str | None, typer.Option("--cursor", metavar="C", help="Continue a list that --limit cut off, from this cursor.")
]
ExpectedRevision = Annotated[
    int | None,
    typer.Option(
        "--expected-revision", min=0, metavar="N", help="Revision you read; by default the current one is read."
    ),
]
Reason = Annotated[str | None, typer.Option("--reason", metavar="R", help="Reason, kept in the revision.")]
TriggerName = Annotated[str, typer.Argument(metavar="T", help="Trigger: project/domain/task/name.")]
TriggerOrTag = Annotated[
    str | None, typer.Argument(metavar="T", help="Trigger: project/domain/task/name; or use --tag.")
]
FromTime = Annotated[str, typer.Option("--from", metavar="TIME", help="Start of the period, inclusive.")]
