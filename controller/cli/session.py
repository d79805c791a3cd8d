"""What the global options say, for every command."""

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


class Output(StrEnum):
    table = "table"
    json = "json"
    yaml = "yaml"


@dataclass(frozen=True, slots=True)
class Session:
    """One call of the command line."""

    database_url: str | None
    server: str | None
    token: str | None
    output: Output
    actor: str | None

    @contextmanager
    def client(self) -> Iterator["Client"]:
        """A client of the HTTP application: over the network with --server, in this process without."""
        from controller.cli import client

        if self.server:
            with client.over_network(self.server, self.token) as connected:
                yield connected
        else:
            with client.in_process(self.settings(), self.actor_name()) as connected:
                yield connected

    def settings(self, **given: Any) -> "Settings":
        """The settings, for what works without a server. Raises Invalid."""
        from controller import settings

        return settings.load(database_url=self.database_url, **given)

    def actor_name(self) -> str:
        """Who acts: --actor, else the system user. Raises Invalid for what is no name, and for the product's own."""
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


def of(context: typer.Context) -> Session:
    """The session of a command's context."""
    session = context.find_object(Session)
    assert session is not None
    return session


ByProject = Annotated[str | None, typer.Option("--project", metavar="P", help="Only those of this project.")]
ByDomain = Annotated[str | None, typer.Option("--domain", metavar="D", help="Only those of this domain.")]
ByTask = Annotated[str | None, typer.Option("--task", metavar="N", help="Only those of the task of this name.")]
IdempotencyKey = Annotated[
    str | None, typer.Option("--idempotency-key", metavar="K", help="By which a retry is recognised.")
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="How many at most; left out, all.")]
Cursor = Annotated[str | None, typer.Option("--cursor", metavar="C", help="Where a list that was cut off goes on.")]
ExpectedRevision = Annotated[
    int | None,
    typer.Option(
        "--expected-revision", min=0, metavar="N", help="The revision you read; left out, the current one is read."
    ),
]
Reason = Annotated[str | None, typer.Option("--reason", metavar="R", help="Why; kept in the revision.")]
TriggerName = Annotated[str, typer.Argument(metavar="T", help="project/domain/task/name")]
