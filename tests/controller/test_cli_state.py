"""The command for the state of a trigger."""

import json

import pytest

from tests.controller.conftest import ON_SQLITE, Cli, Write
from tests.world import World

pytestmark = ON_SQLITE  # test_api_*.py test the same requests on PostgreSQL too

T = "acme/production/report/tick"


@pytest.fixture(autouse=True)
def _trigger(world: World) -> None:
    world.create()


def test_state_is_set_shown_and_removed(cli: Cli, write: Write) -> None:
    """X-03, U-01: from a file or standard input, with the actor."""
    assert cli("state", T).out == f"trigger  {T}\nThere is no state: the next run finds null.\n"
    result = cli("--actor", "ann", "state", T, "--set", write("seed.json", {"cursor": [1, "ü"]}))
    assert result.status == 0, result.err
    assert "changed by  ann\n" in result.out
    assert 'state: {"cursor": [1, "ü"]}\n' in result.out
    assert cli("state", T).out == result.out
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
def test_a_file_without_exactly_one_small_value_is_refused(cli: Cli, text: str, words: str) -> None:
    """X-06, U-01: exit code 5, with what to do."""
    result = cli("state", T, "--set", "-", stdin=text)
    assert (result.status, result.out) == (5, "")
    assert words in result.err


def test_state_refuses_contradicting_options_and_unknown_names(cli: Cli) -> None:
    """U-01: each with its exit status."""
    assert cli("state", T, "--set", "-", "--clear", stdin="1").status == 2
    assert cli("state", "acme/production/report/none").status == 3
    assert cli("state", T, "--set", "none.json").status == 5
