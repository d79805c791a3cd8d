"""Between two revisions, as of a time, and what changed, by command."""

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
from tests.controller.conftest import ON_SQLITE, Cli, Write
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


def terminal(database_url: str, *arguments: str, columns: int = 100) -> str:
    """What a command shows in a terminal of that width."""
    outer, inner = os.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "controller.cli.main", "--database-url", database_url, *arguments],
        stdin=inner,
        stdout=inner,
        stderr=inner,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": str(columns)},
    )
    os.close(inner)
    shown = b""
    try:
        while part := os.read(outer, 65536):
            shown += part
    except OSError:
        pass  # the terminal ends with the command
    os.close(outer)
    assert child.wait(PATIENCE) == 0
    return shown.decode()


def plain(shown: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r", "").splitlines()


def test_what_differs(cli: Cli) -> None:
    """R-09: a line for each path, texts in quotes so that `1` is no number; the API's shape as JSON."""
    lines = [re.split(r" {2,}", line) for line in cli("diff", T, "1", "2").out.splitlines()]
    assert lines == [
        ["PATH", "KIND", "1", "2"],
        ["spec.description", "removed", '"first"', "-"],
        ["spec.input.n", "changed", "1", '"1"'],
        ["spec.schedule.cron", "added", "-", '"0 8 * * *"'],
        ["spec.schedule.every", "removed", '"1m"', "-"],
    ]
    found = json.loads(cli("--output", "json", "diff", T, "2", "1").out)
    assert (found["from"], found["to"], len(found["differences"])) == (2, 1, 4)
    assert cli("diff", T, "2", "2").out == "no difference\n"
    assert cli("diff", T, "1", "9").status == 3
    assert cli("diff", T, "1").status == 2


@ON_SQLITE
def test_the_differences_are_coloured_in_a_terminal(database_url: str) -> None:
    """R-09: added green, removed red, changed yellow."""
    shown = terminal(database_url, "diff", T, "1", "2")
    assert "\x1b[31mspec.description" in shown
    assert "\x1b[32mspec.schedule.cron" in shown
    assert "\x1b[33mspec.input.n" in shown


def test_a_trigger_as_of_a_time(cli: Cli) -> None:
    """R-09: `show --as-of`; before it was, not found; not beside --revision."""
    then = json.loads(cli("--output", "json", "show", T, "--as-of", "2026-03-02T08:30:00Z").out)
    assert (then["revision"], then["spec"]["description"], then["status"]["run_count"]) == (1, "first", None)
    assert "revision    1\n" in cli("show", T, "--as-of", "2026-03-02T08:30:00Z").out
    assert cli("show", T, "--as-of", "2026-03-02T07:00:00Z").status == 3
    assert cli("show", T, "--as-of", "yesterday").status == 5
    assert cli("show", T, "--as-of", "2026-03-02T08:30:00Z", "--revision", "1").status == 2


@ON_SQLITE
@pytest.mark.parametrize("columns", [100, 50])
def test_tables_stay_readable_in_a_terminal(cli: Cli, write: Write, database_url: str, columns: int) -> None:
    """U-01: nothing is cut off; at 100 columns no time, number or word of a short column is torn."""
    name = "a-rather-long-name-of-a-trigger-that-somebody-gave"
    assert cli("deploy", write("long.yaml", trigger_document(name))).status == 0
    cli("deactivate", f"acme/production/report/{name}", "--reason", "a reason of many words " * 5)
    history = plain(terminal(database_url, "history", f"acme/production/report/{name}", columns=columns))
    listed = plain(terminal(database_url, "list", columns=columns))
    for lines in (history, listed):
        assert all(len(line) <= columns for line in lines)
    assert "".join("".join(listed).split()).count("-") > 10
    if columns == 100:
        assert re.search(r"^2 +DEACTIVATE +no .*2026-03-02", "\n".join(history), re.MULTILINE)
        assert any("09:00:00Z" in line for line in history)
        assert any(line.startswith("acme/production/report/tick ") for line in listed)
        assert any("08:00:00Z" in line for line in listed)


def test_what_changed(cli: Cli) -> None:
    """R-17: a line each, and on standard error the position to go on from."""
    said = cli("changes")
    assert [line.split() for line in said.out.splitlines()] == [
        ["AT", "TRIGGER", "REVISION"],
        ["2026-03-02T08:00:00Z", T, "1"],
        ["2026-03-02T09:00:00Z", T, "2"],
    ]
    found = json.loads(cli("--output", "json", "changes").out)
    assert re.fullmatch(r"go on with --after \S+\n", said.err)
    assert [item["revision"] for item in found["items"]] == [1, 2]
    cli("deactivate", T)
    after = json.loads(cli("--output", "json", "changes", "--after", found["next_cursor"]).out)
    assert after["items"][-1] == {"trigger": T, "revision": 3, "at": "2026-03-02T09:00:00Z"}
    assert len(cli("changes", "--limit", "1").out.splitlines()) == 2
    assert cli("changes", "--after", "x").status == 5
    assert cli("changes", "--follow", "--limit", "1").status == 2


@pytest.fixture
def following(database_url: str) -> Iterator[subprocess.Popen[str]]:
    """`changes --follow` in a process of its own, as JSON."""
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


def test_following_what_changes(cli: Cli, following: subprocess.Popen[str]) -> None:
    """R-17: a line for each change as it comes, none twice; Ctrl-C ends it quietly, with the position reached."""
    assert following.stdout is not None

    def told() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(following.stdout.readline())  # type: ignore[union-attr]
        return found

    assert [told()["revision"] for _ in range(2)] == [1, 2]
    cli("deactivate", T)
    assert told() == {"trigger": T, "revision": 3, "at": "2026-03-02T09:00:00Z"}
    cli("activate", T)
    assert told()["revision"] == 4
    following.send_signal(signal.SIGINT)
    out, err = following.communicate(timeout=PATIENCE)
    assert (following.returncode, out) == (0, "")
    position = re.fullmatch(r"go on with --after (\S+)\n", err)
    assert position is not None
    assert cli("changes", "--after", position[1]).status == 0
