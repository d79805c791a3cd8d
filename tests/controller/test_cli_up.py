"""The command `up` passes its options to the controller."""

from collections.abc import Collection
from typing import Any

import pytest

from controller.settings import Settings
from tests.controller.conftest import Cli


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Arguments with which the controller was started, instead of starting it."""
    calls: list[Any] = []

    def run(settings: Settings, without: Collection[str], *, is_restored: bool) -> None:
        calls.append((settings, without, is_restored))

    monkeypatch.setattr("controller.serve.run", run)
    return calls


def test_up_passes_parts_and_address(cli: Cli, database_url: str, served: list[Any]) -> None:
    """L-02: options take precedence over settings."""
    assert cli("up", "--without", "loop, runner", "--listen", "127.0.0.1:0").status == 0
    [(settings, without, is_restored)] = served
    assert (settings.database_url, settings.listen, without) == (database_url, "127.0.0.1:0", {"loop", "runner"})
    assert is_restored is False


def test_up_passes_that_the_database_was_restored(cli: Cli, served: list[Any]) -> None:
    """O-07: `--baseline now` is the only value."""
    assert cli("up", "--baseline", "now").status == 0
    assert served[0][2] is True
    assert cli("up", "--baseline", "yesterday").status == 2


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["--without", "roof"], 2), (["--without", "api,web,loop,runner"], 2), (["--listen", "nowhere"], 5)],
    ids=str,
)
def test_up_refuses_unknown_parts_and_addresses(cli: Cli, served: list[Any], arguments: list[str], status: int) -> None:
    """U-01: an unknown part, or none left, is wrong usage; a malformed address is invalid."""
    assert cli("up", *arguments).status == status
    assert served == []
