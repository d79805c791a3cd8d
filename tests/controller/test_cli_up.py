"""The command that starts the controller hands its settings on."""

import sys
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

import controller
from controller.settings import Settings
from tests.controller.conftest import Cli


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the server was started with."""
    calls: list[Any] = []

    def run(settings: Settings, without: Collection[str], *, is_restored: bool) -> None:
        calls.append((settings, without, is_restored))

    server = SimpleNamespace(run=run)
    monkeypatch.setitem(sys.modules, "controller.serve", server)
    monkeypatch.setattr(controller, "serve", server, raising=False)
    return calls


def test_up_is_told_what_to_leave_out_and_where_to_listen(cli: Cli, database_url: str, served: list[Any]) -> None:
    """L-02: the command line goes before everything else."""
    assert cli("up", "--without", "loop, runner", "--listen", "127.0.0.1:0").status == 0
    [(settings, without, is_restored)] = served
    assert (settings.database_url, settings.listen, without) == (database_url, "127.0.0.1:0", {"loop", "runner"})
    assert is_restored is False


def test_up_is_told_that_the_database_was_restored(cli: Cli, served: list[Any]) -> None:
    """O-07: `--baseline now`; there is no other one."""
    assert cli("up", "--baseline", "now").status == 0
    assert served[0][2] is True
    assert cli("up", "--baseline", "yesterday").status == 2


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["--without", "roof"], 2), (["--without", "api,web,loop,runner"], 2), (["--listen", "nowhere"], 5)],
    ids=str,
)
def test_up_refuses_what_it_cannot_do(cli: Cli, served: list[Any], arguments: list[str], status: int) -> None:
    """U-01: an unknown part is a usage error, and so is to leave out all; what is no address is invalid."""
    assert cli("up", *arguments).status == status
    assert served == []
