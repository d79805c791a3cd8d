"""The state of a trigger by command."""

import json

import pytest

from tests.controller.conftest import Cli, Write
from tests.world import World

T = "acme/production/report/tick"


@pytest.fixture(autouse=True)
def _trigger(world: World) -> None:
    world.create()


def test_seeding_showing_and_removing(cli: Cli, write: Write) -> None:
    """X-03, U-01: from a file and from standard input; who did it is shown."""
    assert cli("state", T).out == f"trigger  {T}\nThere is no state: the next run finds null.\n"
    said = cli("--actor", "ann", "state", T, "--set", write("seed.json", {"cursor": [1, "ü"]}))
    assert said.status == 0, said.err
    assert "changed by  ann\n" in said.out
    assert 'state: {"cursor": [1, "ü"]}\n' in said.out
    assert cli("state", T).out == said.out
    assert cli("state", T, "--set", "-", stdin="cursor: 2026-01-01\n").status == 0
    shown = json.loads(cli("--output", "json", "state", T).out)
    assert (shown["trigger"], shown["state"], shown["run_id"]) == (T, {"cursor": "2026-01-01"}, None)
    cleared = json.loads(cli("--output", "json", "--actor", "bob", "state", T, "--clear").out)
    assert (cleared["state"], cleared["changed"], cleared["changed_by"]) == (None, True, "bob")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "standard input: holds 0 values"),
        ("1\n---\n2\n", "standard input: holds 2 values"),
        ("{", "standard input, line 1"),
        ("x" * 2**16, "state: is 65,538 bytes"),
    ],
    ids=["nothing", "two", "half", "too large"],
)
def test_what_is_no_state(cli: Cli, text: str, words: str) -> None:
    """X-06, U-01: exit code 5, and the way out."""
    said = cli("state", T, "--set", "-", stdin=text)
    assert (said.status, said.out) == (5, "")
    assert words in said.err


def test_wrong_usage_and_wrong_names(cli: Cli) -> None:
    """U-01: one of the two options; a trigger that is there."""
    assert cli("state", T, "--set", "-", "--clear", stdin="1").status == 2
    assert cli("state", "acme/production/report/none").status == 3
    assert cli("state", T, "--set", "none.json").status == 5
