"""Commands for tokens: who may do what in which project (O-06)."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli import session as sessions
from controller.cli.session import Cursor, Limit, Output

if TYPE_CHECKING:
    from controller.cli.client import Client
    from controller.cli.screen import Columns

app = typer.Typer(no_args_is_help=True, help="Tokens: who may do what in which project.")


@app.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who it is; histories name it so.")],
    role: Annotated[str, typer.Option(metavar="ROLE", help="viewer, operator, deployer or admin.")],
    project: Annotated[
        list[str] | None,
        typer.Option("--project", metavar="P", help="Only in this project; may stand several times; left out, in all."),
    ] = None,
    expires_at: Annotated[
        str | None, typer.Option("--expires", metavar="TIME", help="When it ends by itself; left out, never.")
    ] = None,
) -> None:
    """Make a token; its secret is told this once. From the first one on everybody over HTTP needs one."""
    from controller.cli import screen

    session = sessions.of(context)
    said = {"name": name, "role": role, "projects": project or None, "expires_at": expires_at}
    with session.client() as client:
        answer = client.post("/tokens", {field: value for field, value in said.items() if value is not None})
    screen.facts(session, answer, {"token": "token", **_FACTS})
    if session.output is Output.table:
        screen.note("keep it now, for it is not told again: TRIGGERCTL_TOKEN=… or --token")


@app.command("list")
def listing(
    context: typer.Context,
    all: Annotated[bool, typer.Option("--all", help="Also those that are revoked or have expired.")] = False,
    limit: Limit = None,
    cursor: Cursor = None,
) -> None:
    """List the tokens that can be used."""
    from controller.cli import screen

    session = sessions.of(context)
    with session.client() as client:
        answer = client.items("/tokens", limit, cursor)
    if not all:
        answer["items"] = [item for item in answer["items"] if item["live"]]
    columns: Columns = {"ID": "id", "NAME": "name", "ROLE": "role", "PROJECTS": _projects, "LIVE": "live"}
    times = {"CREATED": "created_at", "BY": "created_by", "EXPIRES": "expires_at", "LAST USED": "last_used_at"}
    screen.rows(session, answer, {**columns, **times})


@app.command()
def revoke(
    context: typer.Context,
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="An id; or a name, and all tokens that bear it.")],
) -> None:
    """End a token now, or all of a name; triggers whose author it is start nothing from then on."""
    from controller.cli import files, screen

    session = sessions.of(context)
    with session.client() as client:
        revoked = [client.delete(files.token_path(id)) for id in _ids(client, token)]
    columns: Columns = {"ID": "id", "NAME": "name", "REVOKED": "revoked_at", "BY": "revoked_by"}
    screen.rows(session, {"items": revoked, "next_cursor": None}, columns)
    if session.output is Output.table and (denied := revoked[-1]["denied_triggers"]):
        act = "trigger acts" if denied == 1 else "triggers act"
        screen.note(f"{denied:,} active {act} for {revoked[-1]['name']} and may start nothing now: {_TAKE_OVER}")


def _ids(client: "Client", token: str) -> list[str]:
    """What is meant: a name's live tokens, else an id. Raises NotFound for neither."""
    from revisions.errors import NotFound
    from revisions.ids import is_id

    named = [item["id"] for item in client.items("/tokens")["items"] if item["name"] == token and item["live"]]
    if named or is_id(token):
        return named or [token]
    raise NotFound.hinted("token", f"there is no token {token}", "`triggerctl token list` shows what there is")


def _projects(item: Any) -> str:
    return "all" if item["projects"] is None else ", ".join(item["projects"])


_TAKE_OVER = "`triggerctl doctor` names them; have somebody who may deploy them deploy them again"
_FACTS: "Columns" = {
    "id": "id",
    "name": "name",
    "role": "role",
    "projects": _projects,
    "expires at": "expires_at",
    "created by": "created_by",
}
