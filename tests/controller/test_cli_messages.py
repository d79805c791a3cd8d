"""Messages and tables for people: no empty fields, no repetition, and always a next step."""

import json
from pathlib import Path

import pytest

from tests.controller.conftest import ON_SQLITE, Cli, CommandResult, Write
from tests.world import task_document, trigger_document

pytestmark = ON_SQLITE  # test_api_*.py test the same requests on PostgreSQL too

T = "acme/production/report/tick"


@pytest.fixture(autouse=True)
def _deployed(cli: Cli, write: Write) -> None:
    assert cli("task", "register", write("task.yaml", task_document())).status == 0
    assert cli("--actor", "ann", "deploy", write("trigger.yaml", trigger_document())).status == 0


def failed(result: CommandResult, status: int, following: str) -> None:
    """Assert the exit status and the next step."""
    assert (result.status, result.out) == (status, "")
    assert [line for line in result.err.splitlines() if line.startswith("next: ")] == [f"next: {following}"]


def names(result: CommandResult) -> list[str]:
    """Return the names of the printed fields."""
    return [line.split("  ")[0] for line in result.out.splitlines()]


def test_empty_fields_are_left_out(cli: Cli, write: Write) -> None:
    """U-01: `deleted`, a pause or an error is shown only if there is one."""
    repeated = cli("deploy", "trigger.yaml", "--expected-revision", "1")
    assert names(repeated) == ["trigger", "revision", "changed", "active", "next fire"]
    paused = cli("deactivate", T, "--until", "2026-03-03T00:00:00Z")
    assert "paused until  2026-03-03T00:00:00Z" in paused.out
    assert "deactivated because" not in cli("show", T).out
    assert "last error" not in cli("show", T).out
    assert "deleted   yes" in cli("delete", T).out
    assert "previous_hash" not in cli("show", T, "--revision", "1").out


def test_empty_values_in_a_spec_are_shown(cli: Cli, write: Write) -> None:
    """U-01, R-18: a spec is shown as it was written."""
    cli("deploy", write("empty.yaml", trigger_document("empty", input={"since": None, "of": {}})))
    shown = cli("show", "acme/production/report/empty").out
    assert "since: null" in shown
    assert "of: {}" in shown


def test_the_last_outcome_has_the_status_of_the_run(cli: Cli) -> None:
    """U-01: `started` alone does not tell how the run went. JSON keeps its shape."""
    fired = json.loads(cli("--output", "json", "fire", T).out)["id"]
    assert "started, run pending" in cli("list").out
    assert cli("runs", "cancel", fired).status == 0
    for command in (["list"], ["show", T]):
        assert "started, run cancelled" in cli(*command).out
    assert json.loads(cli("--output", "json", "show", T).out)["status"]["last_outcome"] == "started"


def test_json_escapes_control_characters(cli: Cli) -> None:
    """U-01: text from other people moves no cursor and reverses no line, and programs read it unchanged."""
    reason = "a\x9b2J\x7f \u202eb \U000e0041 é שלום"
    assert cli("deactivate", T, "--reason", reason).status == 0
    result = cli("--output", "json", "history", T).out
    assert json.loads(result)["items"][0]["reason"] == reason
    assert all(c.isprintable() or c == "\n" for c in result)
    assert "é שלום" in result


def test_a_conflict_names_revision_actor_and_time_once(cli: Cli, write: Write) -> None:
    """R-04, U-01: each has one place in the message."""
    result = cli("deploy", write("new.yaml", trigger_document(description="x")), "--expected-revision", "7")
    assert result.status == 4
    assert result.err == (
        f"error: {T} stands at revision 1, not 7\n"
        "  changed by ann at 2026-03-02T08:00:00Z\n"
        "next: see `triggerctl history`, then repeat with --expected-revision 1 if it still holds\n"
    )


def test_every_error_names_its_own_next_step(cli: Cli, write: Write) -> None:
    """U-01: the hint belongs to the error itself, not only to its code."""
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
def test_an_unquoted_version_is_reported_as_it_was_written(
    cli: Cli, tmp_path: Path, command: str, version: str
) -> None:
    """R-18, U-01: `task_version: 1.10` is reported as 1.10, not as the number 1.1 that YAML reads."""
    (tmp_path / "f").mkdir()
    text = json.dumps(trigger_document("new", task_version="VERSION")).replace('"VERSION"', version)
    (tmp_path / "f" / "new.yaml").write_text(text)
    result = cli(command, "f/new.yaml" if command == "deploy" else "f")
    assert result.status == 5
    wrong = f'spec.task_version: {version} is not a string (quote it, so that it stays as written: "{version}")'
    assert wrong in result.err


def test_list_filters_by_origin(cli: Cli, write: Write, tmp_path: Path) -> None:
    """R-22, U-01: `list --origin` lists the triggers applied from a folder."""
    (tmp_path / "f").mkdir()
    write("f/mine.yaml", trigger_document("mine"))
    assert cli("apply", "f", "--origin", "shop", "--yes").status == 0
    items = json.loads(cli("--output", "json", "list", "--origin", "shop").out)["items"]
    assert [item["name"] for item in items] == ["mine"]


def test_pausing_a_paused_trigger_notes_the_end_of_its_pause(cli: Cli) -> None:
    """R-08, R-20: the second pause changes nothing, so the note tells that the first one still ends."""
    cli("deactivate", T, "--until", "2026-03-03T00:00:00Z")
    result = cli("deactivate", T)
    assert "it was paused already, until 2026-03-03T00:00:00Z" in result.err


def test_deleting_a_task_notes_the_number_of_its_triggers(cli: Cli) -> None:
    """R-14, U-01: they are deleted with it."""
    assert "1 bound trigger deleted with it" in cli("task", "delete", "acme/production/report@v1").err
