"""Commands that read the past: differences, earlier states, and the change feed; and tables in a terminal."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from revisions.clock import HandClock
from tests.controller.conftest import ON_POSTGRESQL, ON_SQLITE, Cli, Terminal, Write
from tests.waiting import PATIENCE
from tests.world import task_document, trigger_document

T = "acme/production/report/tick"
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _two_revisions(cli: Cli, write: Write, clock: HandClock) -> None:
    assert cli("task", "register", write("task.yaml", task_document())).status == 0
    assert cli("deploy", write("tick.yaml", trigger_document(description="first", input={"n": 1}))).status == 0
    clock.advance(timedelta(hours=1))
    newer = trigger_document(schedule={"cron": "0 8 * * *"}, input={"n": "1"})
    assert cli("deploy", write("tick.yaml", newer), "--expected-revision", "1").status == 0


def plain(shown: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r", "").splitlines()


@ON_SQLITE
def test_diff_shows_each_path_that_differs(cli: Cli) -> None:
    """R-09: strings are quoted, so that `1` is no number; JSON has the API's shape."""
    lines = [re.split(r" {2,}", line) for line in cli("diff", T, "1", "2").out.splitlines()]
    assert lines == [
        ["PATH", "KIND", "1", "2"],
        ["spec.description", "removed", '"first"', "-"],
        ["spec.input.n", "changed", "1", '"1"'],
        ["spec.schedule.cron", "added", "-", '"0 8 * * *"'],
        ["spec.schedule.every", "removed", '"1m"', "-"],
    ]
    reverse = json.loads(cli("--output", "json", "diff", T, "2", "1").out)
    assert (reverse["from"], reverse["to"], len(reverse["differences"])) == (2, 1, 4)
    assert cli("diff", T, "2", "2").out == "no difference\n"
    assert cli("diff", T, "1", "9").status == 3
    assert cli("diff", T, "1").status == 2


@ON_SQLITE
def test_diff_is_coloured_in_a_terminal(terminal: Terminal) -> None:
    """R-09: added green, removed red, changed yellow."""
    shown = terminal("diff", T, "1", "2").out
    assert "\x1b[31mspec.description" in shown
    assert "\x1b[32mspec.schedule.cron" in shown
    assert "\x1b[33mspec.input.n" in shown


@ON_SQLITE
def test_show_as_of_shows_an_earlier_state(cli: Cli) -> None:
    """R-09: not found before the trigger existed; not together with --revision."""
    then = json.loads(cli("--output", "json", "show", T, "--as-of", "2026-03-02T08:30:00Z").out)
    assert (then["revision"], then["spec"]["description"], then["status"]["run_count"]) == (1, "first", None)
    assert "revision    1\n" in cli("show", T, "--as-of", "2026-03-02T08:30:00Z").out
    assert cli("show", T, "--as-of", "2026-03-02T07:00:00Z").status == 3
    assert cli("show", T, "--as-of", "yesterday").status == 5
    assert cli("show", T, "--as-of", "2026-03-02T08:30:00Z", "--revision", "1").status == 2


@ON_SQLITE
@pytest.mark.parametrize("columns", [100, 50])
def test_tables_fit_the_terminal_without_cutting(cli: Cli, terminal: Terminal, write: Write, columns: int) -> None:
    """U-01: at 100 columns no time, number or word of a short column is broken."""
    name = "a-rather-long-name-of-a-trigger-that-somebody-gave"
    assert cli("deploy", write("long.yaml", trigger_document(name))).status == 0
    cli("deactivate", f"acme/production/report/{name}", "--reason", "a reason of many words " * 5)
    history = plain(terminal("history", f"acme/production/report/{name}", columns=columns).out)
    listed = plain(terminal("list", columns=columns).out)
    for lines in (history, listed):
        assert all(len(line) <= columns for line in lines)
    assert "".join("".join(listed).split()).count("-") > 10
    if columns == 100:
        assert re.search(r"^2 +DEACTIVATE +no .*2026-03-02", "\n".join(history), re.MULTILINE)
        assert any("09:00:00Z" in line for line in history)
        assert any(line.startswith("acme/production/report/tick ") for line in listed)
        assert any("08:00:00Z" in line for line in listed)


def test_changes_lists_revisions_and_notes_the_position(cli: Cli) -> None:
    """R-17: from which to continue, on standard error."""
    result = cli("changes")
    assert [line.split() for line in result.out.splitlines()] == [
        ["AT", "TRIGGER", "REVISION"],
        ["2026-03-02T08:00:00Z", T, "1"],
        ["2026-03-02T09:00:00Z", T, "2"],
    ]
    document = json.loads(cli("--output", "json", "changes").out)
    assert re.fullmatch(r"go on with --after \S+\n", result.err)
    assert [item["revision"] for item in document["items"]] == [1, 2]
    cli("deactivate", T)
    after = json.loads(cli("--output", "json", "changes", "--after", document["next_cursor"]).out)
    assert after["items"][-1] == {"trigger": T, "revision": 3, "at": "2026-03-02T09:00:00Z"}
    assert len(cli("changes", "--limit", "1").out.splitlines()) == 2
    assert cli("changes", "--after", "x").status == 5
    assert cli("changes", "--follow", "--limit", "1").status == 2


@pytest.fixture
def following(database_url: str) -> Iterator[subprocess.Popen[str]]:
    """`changes --follow` as a process, with JSON output."""
    command = [sys.executable, "-m", "controller.cli.main", "--database-url", database_url]
    child = subprocess.Popen(
        [*command, "--output", "json", "changes", "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    yield child
    child.kill()
    child.communicate()


@ON_POSTGRESQL
def test_changes_follow_prints_each_change_once_until_ctrl_c(cli: Cli, following: subprocess.Popen[str]) -> None:
    """R-17: the position reached is noted at the end. Only PostgreSQL's feed repeats changes."""
    assert following.stdout is not None

    def next_change() -> dict[str, Any]:
        change: dict[str, Any] = json.loads(following.stdout.readline())  # type: ignore[union-attr]
        return change

    assert [next_change()["revision"] for _ in range(2)] == [1, 2]
    cli("deactivate", T)
    assert next_change() == {"trigger": T, "revision": 3, "at": "2026-03-02T09:00:00Z"}
    cli("activate", T)
    assert next_change()["revision"] == 4
    following.send_signal(signal.SIGINT)
    out, err = following.communicate(timeout=PATIENCE)
    assert (following.returncode, out) == (0, "")
    position = re.fullmatch(r"go on with --after (\S+)\n", err)
    assert position is not None
    assert cli("changes", "--after", position[1]).status == 0
