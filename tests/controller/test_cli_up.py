"""The command that starts the controller hands its settings on."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import controller
from tests.controller.conftest import Cli


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the server was started with."""
    calls: list[Any] = []
    server = SimpleNamespace(run=lambda settings, without: calls.append((settings, without)))
    monkeypatch.setitem(sys.modules, "controller.serve", server)
    monkeypatch.setattr(controller, "serve", server, raising=False)
    return calls


def test_up_is_told_what_to_leave_out_and_where_to_listen(cli: Cli, database_url: str, served: list[Any]) -> None:
    """L-02: the command line goes before everything else."""
    assert cli("up", "--without", "loop, runner", "--listen", "127.0.0.1:0").status == 0
    [(settings, without)] = served
    assert (settings.database_url, settings.listen, without) == (database_url, "127.0.0.1:0", {"loop", "runner"})


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["--without", "roof"], 2), (["--listen", "nowhere"], 5)],
    ids=str,
)
def test_up_refuses_what_it_cannot_do(cli: Cli, served: list[Any], arguments: list[str], status: int) -> None:
    """U-01: an unknown part is a usage error, what is no address is invalid."""
    assert cli("up", *arguments).status == status
    assert served == []
