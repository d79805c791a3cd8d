"""Commands for tokens, on the database and over a network."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from controller import settings
from controller.serve import Process, listen, refuse_public_access
from reconcile.decide.authority import Caller, Reach, scopes_of
from reconcile.decide.preconditions import Expected
from reconcile.observations.observation import Observations
from reconcile.triggers.credentials import triggers_denied
from revisions.errors import Invalid
from revisions.store.database import Database
from tests.controller.conftest import ON_SQLITE, Cli
from tests.world import World

pytestmark = ON_SQLITE  # test_api_*.py test the same requests on PostgreSQL too


def created(cli: Cli, *arguments: str) -> dict[str, object]:
    made: dict[str, object] = json.loads(cli("--output", "json", "token", "create", *arguments).out)
    return made


def test_tokens_are_created_listed_and_revoked(cli: Cli) -> None:
    """O-06, U-01: the secret is shown once, with what to do; a name stands for all its tokens."""
    result = cli("token", "create", "ci", "--role", "deployer", "--project", "acme", "--project", "other")
    assert result.status == 0
    assert "tct_" in result.out
    assert "not shown again" in result.err
    token = created(cli, "ann", "--role", "admin", "--expires", "2026-04-01T00:00:00Z")
    assert (token["projects"], token["expires_at"]) == (None, "2026-04-01T00:00:00Z")
    listed = cli("token", "list").out
    assert "acme, other" in listed
    assert "tct_" not in listed
    assert cli("token", "revoke", "ci").status == 0
    assert cli("token", "revoke", str(token["id"])).status == 0
    assert json.loads(cli("--output", "json", "token", "list").out)["items"] == []
    assert [item["name"] for item in json.loads(cli("--output", "json", "token", "list", "--all").out)["items"]] == [
        "ann",
        "ci",
    ]


def test_revoke_notes_how_many_triggers_may_start_nothing(cli: Cli, world: World) -> None:
    """O-06, X-15: none while the name has another valid token."""
    first, second = (created(cli, "ci", "--role", "deployer", "--project", "acme")["id"] for _ in range(2))
    for name in ("a", "b"):
        world.deploy(name, Expected(absent=True), Caller("ci", scopes=scopes_of("token:ci")))
    assert "trigger" not in cli("token", "revoke", str(first)).err
    result = cli("token", "revoke", "ci")
    assert "2 active triggers of ci may start nothing from now on: `triggerctl doctor` names them" in result.err
    [again] = json.loads(cli("--output", "json", "token", "revoke", str(second)).out)["items"]
    assert again["denied_triggers"] == 2
    assert triggers_denied(world.database, "ci", Reach(frozenset({"other"}))) == []


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (("create", "Ann", "--role", "admin"), 5, "lower-case"),
        (("create", "ann", "--role", "owner"), 5, "viewer, operator, deployer, admin"),
        (("revoke", "nobody"), 3, "token list"),
        (("revoke", "01M8M6BTAN8HXD64DS3X5DECZD"), 3, "token list"),
    ],
)
def test_wrong_token_arguments_name_the_next_step(cli: Cli, arguments: tuple[str, ...], status: int, told: str) -> None:
    """O-06, U-01: each with its exit code."""
    result = cli("token", *arguments)
    assert result.status == status
    assert told in result.err


@contextmanager
def serving(database_url: str, **options: object) -> Iterator[str]:
    """The API of a controller on a free port."""
    chosen = settings.load(**{"listen": "127.0.0.1:0"} | options)
    with Database(database_url) as database:
        process = Process(chosen, database, Observations(), ("runner", "loop"))
        listening = listen(chosen)
        stop = process.serve(listening)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            stop()


def test_over_a_network_the_token_decides_actor_and_role(cli: Cli, sqlite_database_url: str) -> None:
    """O-06: exit code 6 without a token, with a wrong one, and beyond its role."""
    admin = json.loads(
        cli("--output", "json", "token", "create", "root", "--role", "admin", database=sqlite_database_url).out
    )["token"]
    with serving(sqlite_database_url) as server:

        def ask(*arguments: str, token: str | None = None) -> tuple[int, str, str]:
            given = ("--server", server, *(("--token", token) if token else ()))
            result = cli(*given, *arguments, database=None)
            return result.status, result.out, result.err

        assert ask("list")[0] == 6
        assert "--token" in ask("list")[2] or "token" in ask("list")[2]
        assert ask("list", token="tct_wrong")[0] == 6
        status, out, _ = ask("--output", "json", "token", "create", "eve", "--role", "viewer", token=admin)
        assert status == 0
        viewer = json.loads(out)["token"]
        assert ask("list", token=viewer)[0] == 0
        status, _, err = ask("token", "list", token=viewer)
        assert status == 6
        assert "eve is not admin" in err
        assert ask("token", "revoke", "eve", token=admin)[0] == 0
        assert ask("list", token=viewer)[0] == 6


def test_a_public_address_requires_a_token_or_access_required(cli: Cli, database: Database) -> None:
    """O-06: refused without tokens, allowed from the first one on, and with `access: required`."""
    chosen = settings.load(listen="0.0.0.0:0")
    assert not chosen.is_safe
    with pytest.raises(Invalid) as refused:
        refuse_public_access(chosen, database)
    assert refused.value.errors[0].path == "listen"
    assert "TRIGGERCTL_ACCESS=required" in refused.value.errors[0].hint
    created(cli, "ann", "--role", "admin")
    refuse_public_access(chosen, database)
    assert settings.load(listen="0.0.0.0:0", access="required").is_safe


def test_up_refuses_a_public_address_without_tokens(cli: Cli, sqlite_database_url: str, stop_signals: None) -> None:
    """O-06: exit code 5, with what to do instead."""
    result = cli("up", "--listen", "0.0.0.0:0", database=sqlite_database_url)
    assert result.status == 5
    assert "listen: 0.0.0.0 can be reached by others" in result.err
    assert "triggerctl token create" in result.err
