"""The commands for tokens, on the database and over a network."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from controller import settings
from controller.serve import Process, listen, refuse_open_door
from reconcile.decide.authority import Reach, scopes_of
from reconcile.decide.preconditions import Expected
from reconcile.observations.observation import Observations
from reconcile.triggers.caller import Caller
from reconcile.triggers.credentials import triggers_denied
from revisions.errors import Invalid
from revisions.store.database import Database
from tests.controller.conftest import Cli
from tests.waiting import PATIENCE
from tests.world import World


def created(cli: Cli, *arguments: str) -> dict[str, object]:
    made: dict[str, object] = json.loads(cli("--output", "json", "token", "create", *arguments).out)
    return made


def test_create_list_and_revoke_on_the_database(cli: Cli) -> None:
    """O-06, U-01: the secret is told once, with what to do; a name stands for all its tokens."""
    said = cli("token", "create", "ci", "--role", "deployer", "--project", "acme", "--project", "other")
    assert said.status == 0
    assert "tct_" in said.out
    assert "not told again" in said.err
    made = created(cli, "ann", "--role", "admin", "--expires", "2026-04-01T00:00:00Z")
    assert (made["projects"], made["expires_at"]) == (None, "2026-04-01T00:00:00Z")
    listed = cli("token", "list").out
    assert "acme, other" in listed
    assert "tct_" not in listed
    assert cli("token", "revoke", "ci").status == 0
    assert cli("token", "revoke", str(made["id"])).status == 0
    assert json.loads(cli("--output", "json", "token", "list").out)["items"] == []
    assert [item["name"] for item in json.loads(cli("--output", "json", "token", "list", "--all").out)["items"]] == [
        "ann",
        "ci",
    ]


def test_revoking_says_how_many_triggers_lose_their_author(cli: Cli, world: World) -> None:
    """O-06, X-15: none while another token of the name can be used, nor of other projects than the revoker's."""
    first, second = (created(cli, "ci", "--role", "deployer", "--project", "acme")["id"] for _ in range(2))
    for name in ("a", "b"):
        world.deploy(name, Expected(absent=True), Caller("ci", scopes=scopes_of("token:ci")))
    assert "trigger" not in cli("token", "revoke", str(first)).err
    said = cli("token", "revoke", "ci")
    assert "2 active triggers act for ci and may start nothing now: `triggerctl doctor` names them" in said.err
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
def test_what_cannot_be_done_says_what_can(cli: Cli, arguments: tuple[str, ...], status: int, told: str) -> None:
    """O-06, U-01: with its exit code."""
    said = cli("token", *arguments)
    assert said.status == status
    assert told in said.err


@contextmanager
def serving(database_url: str, **options: object) -> Iterator[str]:
    """A controller's API on a free port."""
    chosen = settings.load(**{"listen": "127.0.0.1:0"} | options)
    with Database(database_url) as database:
        process = Process(chosen, database, Observations(), ("runner", "loop"))
        listening = listen(chosen)
        stop = process.serve(listening)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            stop()


def test_over_a_network_the_token_says_who_and_what(cli: Cli, sqlite_database_url: str) -> None:
    """O-06: exit code 6 without one, with a wrong one, and beyond its role; with the right one all commands work."""
    admin = json.loads(
        cli("--output", "json", "token", "create", "root", "--role", "admin", database=sqlite_database_url).out
    )["token"]
    with serving(sqlite_database_url) as server:

        def ask(*arguments: str, token: str | None = None) -> tuple[int, str, str]:
            given = ("--server", server, *(("--token", token) if token else ()))
            said = cli(*given, *arguments, database=None)
            return said.status, said.out, said.err

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


def test_beyond_loopback_only_where_everybody_must_say_who_he_is(cli: Cli, database: Database) -> None:
    """O-06: refused without tokens, allowed from the first one on, and with `access: required`."""
    chosen = settings.load(listen="0.0.0.0:0")
    assert not chosen.is_safe
    with pytest.raises(Invalid) as refused:
        refuse_open_door(chosen, database)
    assert refused.value.errors[0].path == "listen"
    assert "TRIGGERCTL_ACCESS=required" in refused.value.errors[0].hint
    created(cli, "ann", "--role", "admin")
    refuse_open_door(chosen, database)
    assert settings.load(listen="0.0.0.0:0", access="required").is_safe


def test_up_refuses_to_listen_for_everybody(sqlite_database_url: str) -> None:
    """O-06: exit code 5, and it says what to do instead."""
    command = [sys.executable, "-m", "controller.cli.main", "--database-url", sqlite_database_url]
    said = subprocess.run([*command, "up", "--listen", "0.0.0.0:0"], capture_output=True, text=True, timeout=PATIENCE)
    assert said.returncode == 5
    assert "listen: 0.0.0.0 can be reached by others" in said.stderr
    assert "triggerctl token create" in said.stderr
