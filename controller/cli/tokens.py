"""Commands for tokens, which grant a role in projects (O-06)."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli import output
from controller.cli.session import Cursor, Limit, OutputFormat, current_session

if TYPE_CHECKING:
    from controller.cli.client import Client

app = typer.Typer(no_args_is_help=True, help="Tokens, which grant a role in some or all projects.")

_REDEPLOY_HINT = "`triggerctl doctor` names them; have somebody with the role deployer deploy them again"


@app.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the actor, as histories show it.")],
    role: Annotated[str, typer.Option(metavar="ROLE", help="viewer, operator, deployer or admin.")],
    project: Annotated[
        list[str] | None,
        typer.Option("--project", metavar="P", help="Only this project; repeat for several; default all."),
    ] = None,
    expires_at: Annotated[
        str | None, typer.Option("--expires", metavar="TIME", help="Expire at this time; default never.")
    ] = None,
) -> None:
    """Create a token and print its secret once. As soon as a token exists, every HTTP request needs one."""
    from controller.cli.client import without_none

    session = current_session(context)
    body = without_none(name=name, role=role, projects=project or None, expires_at=expires_at)
    with session.client() as client:
        answer = client.post("/tokens", body)
    output.print_fields(session, answer, {"token": "token", **_FIELDS})
    if session.output is OutputFormat.table:
        output.write_note("store the token now, it is not shown again; use it as TRIGGERCTL_TOKEN=… or --token")


@app.command("list")
def list_tokens(
    context: typer.Context,
    all: Annotated[bool, typer.Option("--all", help="Include revoked and expired tokens.")] = False,
    limit: Limit = None,
    cursor: Cursor = None,
) -> None:
    """List the valid tokens."""
    session = current_session(context)
    with session.client() as client:
        answer = client.list_items("/tokens", limit, cursor)
    if not all:
        answer["items"] = [item for item in answer["items"] if item["live"]]
    output.print_list(
        session,
        answer,
        {
            "ID": "id",
            "NAME": "name",
            "ROLE": "role",
            "PROJECTS": _projects,
            "LIVE": "live",
            "CREATED": "created_at",
            "BY": "created_by",
            "EXPIRES": "expires_at",
            "LAST USED": "last_used_at",
        },
    )


@app.command()
def revoke(
    context: typer.Context,
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="Id of a token; or a name, for all tokens with it.")],
) -> None:
    """Revoke a token, or all tokens of a name. Triggers deployed with it start nothing from then on."""
    from controller.cli import arguments

    session = current_session(context)
    with session.client() as client:
        revoked = [client.delete(arguments.token_path(id)) for id in _token_ids(client, token)]
    columns: output.Columns = {"ID": "id", "NAME": "name", "REVOKED": "revoked_at", "BY": "revoked_by"}
    output.print_list(session, {"items": revoked, "next_cursor": None}, columns)
    if session.output is OutputFormat.table and (count := revoked[-1]["denied_triggers"]):
        triggers = f"{output.count_of(count, 'active trigger')} of {revoked[-1]['name']}"
        output.write_note(f"{triggers} may start nothing from now on: {_REDEPLOY_HINT}")


def _token_ids(client: "Client", token: str) -> list[str]:
    """Return the ids of a name's valid tokens, or the id itself. Raises NotFound if it is neither."""
    from revisions.errors import NotFound
    from revisions.ids import is_id

    named = [item["id"] for item in client.list_items("/tokens")["items"] if item["name"] == token and item["live"]]
    if named or is_id(token):
        return named or [token]
    raise NotFound.hinted("token", f"there is no token {token}", "`triggerctl token list` shows what there is")


def _projects(item: Any) -> str:
    return "all" if item["projects"] is None else ", ".join(item["projects"])


_FIELDS: output.Columns = {
    "id": "id",
    "name": "name",
    "role": "role",
    "projects": _projects,
    "expires at": "expires_at",
    "created by": "created_by",
}
