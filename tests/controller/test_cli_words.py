"""What commands say to people: nothing that says nothing, everything once, and always the way on."""

import json
from pathlib import Path

import pytest

from tests.controller.conftest import Cli, Said, Write
from tests.world import task_document, trigger_document

T = "acme/production/report/tick"


@pytest.fixture(autouse=True)
def _deployed(cli: Cli, write: Write) -> None:
    assert cli("task", "register", write("task.yaml", task_document())).status == 0
    assert cli("--actor", "ann", "deploy", write("trigger.yaml", trigger_document())).status == 0


def failed(said: Said, status: int, following: str) -> None:
    """The status, and what is to be done next."""
    assert (said.status, said.out) == (status, "")
    assert [line for line in said.err.splitlines() if line.startswith("next: ")] == [f"next: {following}"]


def names(said: Said) -> list[str]:
    """What stands before each fact."""
    return [line.split("  ")[0] for line in said.out.splitlines()]


def test_a_fact_that_says_nothing_is_left_out(cli: Cli, write: Write) -> None:
    """U-01: no `deleted no`, no empty pause; each stands there when it says something."""
    again = cli("deploy", "trigger.yaml", "--expected-revision", "1")
    assert names(again) == ["trigger", "revision", "changed", "active", "next fire"]
    paused = cli("deactivate", T, "--until", "2026-03-03T00:00:00Z")
    assert "paused until  2026-03-03T00:00:00Z" in paused.out
    assert "deactivated because" not in cli("show", T).out
    assert "last error" not in cli("show", T).out
    assert "deleted   yes" in cli("delete", T).out
    assert "previous_hash" not in cli("show", T, "--revision", "1").out


def test_an_empty_value_in_a_spec_is_shown(cli: Cli, write: Write) -> None:
    """U-01, R-18: a spec is shown as it was written, whatever is empty in it."""
    cli("deploy", write("empty.yaml", trigger_document("empty", input={"since": None, "of": {}})))
    shown = cli("show", "acme/production/report/empty").out
    assert "since: null" in shown
    assert "of: {}" in shown


def test_the_last_outcome_tells_how_the_run_went(cli: Cli) -> None:
    """U-01: `started` alone says nothing of the run; JSON keeps the shape that it has."""
    fired = json.loads(cli("--output", "json", "fire", T).out)["id"]
    assert "started, run pending" in cli("list").out
    assert cli("runs", "cancel", fired).status == 0
    for command in (["list"], ["show", T]):
        assert "started, run cancelled" in cli(*command).out
    assert json.loads(cli("--output", "json", "show", T).out)["status"]["last_outcome"] == "started"


def test_last_runs_of_many_triggers(cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """U-01: asked for some at a time, none is forgotten."""
    monkeypatch.setattr("controller.cli.triggers._AT_ONCE", 2)
    for name in ("a", "b", "c", "d"):
        cli("deploy", write(f"{name}.yaml", trigger_document(name)))
        assert cli("fire", f"acme/production/report/{name}").status == 0
    assert cli("list").out.count("started, run pending") == 4


def test_json_is_harmless_on_a_terminal(cli: Cli) -> None:
    """U-01: what a stranger wrote moves no cursor and turns no text round there, and means the same to a program."""
    reason = "a\x9b2J\x7f \u202eb \U000e0041 é שלום"
    assert cli("deactivate", T, "--reason", reason).status == 0
    said = cli("--output", "json", "history", T).out
    assert json.loads(said)["items"][0]["reason"] == reason
    assert all(c.isprintable() or c == "\n" for c in said)
    assert "é שלום" in said


def test_a_conflict_says_everything_once(cli: Cli, write: Write) -> None:
    """R-04, U-01: the revision, who made it and when, each in one place."""
    said = cli("deploy", write("new.yaml", trigger_document(description="x")), "--expected-revision", "7")
    assert said.status == 4
    assert said.err == (
        f"error: {T} stands at revision 1, not 7\n"
        "  changed by ann at 2026-03-02T08:00:00Z\n"
        "next: see `triggerctl history`, then repeat with --expected-revision 1 if it still holds\n"
    )


def test_every_refusal_says_what_is_to_be_done(cli: Cli, write: Write) -> None:
    """U-01: the way on is that of the very error, not of its kind."""
    cli("deploy", write("tock.yaml", trigger_document("tock")))
    failed(cli("show", T, "--revision", "9"), 3, f"`triggerctl history {T}` shows them")
    failed(
        cli("show", T, "--as-of", "2020-01-01T00:00:00Z"), 3, f"`triggerctl history {T}` shows since when it is there"
    )
    failed(cli("show", "a/b/c/d"), 3, "`triggerctl list` shows what there is")
    failed(cli("task", "show", "a/b/c@d"), 3, "`triggerctl task list` shows what there is")
    failed(cli("runs", "show", "0" * 26), 3, "`triggerctl runs list` shows what there is")
    failed(cli("rename", T, "tock", "--expected-revision", "1"), 4, "choose another name")
    named = "see `triggerctl show`, then repeat with --expected-revision and the revision you read"
    failed(cli("rename", T, "tack"), 4, named)
    keyed = ("--idempotency-key", "k")
    cli("deploy", write("new.yaml", trigger_document("new")), *keyed)
    other = write("other.yaml", trigger_document("new", description="x"))
    failed(cli("deploy", other, *keyed), 4, "send another key with another request")
    cli("delete", T)
    deleted = cli("deploy", "trigger.yaml", "--expected-revision", "2")
    failed(deleted, 4, "deploy it as new, without an expected revision")
    failed(cli("fire", T), 3, "deploy it again, or roll it back, and it goes on with its history")
    failed(cli("list", database="sqlite:///none.db"), 7, "run `triggerctl db upgrade`")


@pytest.mark.parametrize("command", ["deploy", "plan"])
@pytest.mark.parametrize("version", ["1.10", "007", "1e3", "true"])
def test_what_must_be_quoted_is_shown_as_it_was_written(cli: Cli, tmp_path: Path, command: str, version: str) -> None:
    """R-18, U-01: `task_version: 1.10` is told as 1.10, not as the number 1.1 that YAML makes of it."""
    (tmp_path / "f").mkdir()
    text = json.dumps(trigger_document("new", task_version="VERSION")).replace('"VERSION"', version)
    (tmp_path / "f" / "new.yaml").write_text(text)
    said = cli(command, "f/new.yaml" if command == "deploy" else "f")
    assert said.status == 5
    wrong = f'spec.task_version: {version} is not a string (quote it, so that it stays as written: "{version}")'
    assert wrong in said.err


def test_triggers_of_a_folder(cli: Cli, write: Write, tmp_path: Path) -> None:
    """R-22, U-01: `list --origin` names those that were applied from it."""
    (tmp_path / "f").mkdir()
    write("f/mine.yaml", trigger_document("mine"))
    assert cli("apply", "f", "--origin", "shop", "--yes").status == 0
    found = json.loads(cli("--output", "json", "list", "--origin", "shop").out)["items"]
    assert [item["name"] for item in found] == ["mine"]


def test_a_pause_that_is_left_alone_says_so(cli: Cli) -> None:
    """R-08, R-20: who pauses for good what is paused for a while is told that it will still end."""
    cli("deactivate", T, "--until", "2026-03-03T00:00:00Z")
    said = cli("deactivate", T)
    assert "it was paused already, until 2026-03-03T00:00:00Z" in said.err


def test_deleting_a_task_tells_of_its_triggers(cli: Cli) -> None:
    """R-14, U-01: how many went with it."""
    assert "1 trigger bound to it went with it" in cli("task", "delete", "acme/production/report@v1").err
