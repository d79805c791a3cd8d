"""Commands that roll back, rename, and change many triggers at once."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.controller.conftest import ON_SQLITE, Cli, CommandResult, Write
from tests.world import task_document, trigger_document

pytestmark = ON_SQLITE  # test_api_*.py test the same requests on PostgreSQL too

T, TOCK = "acme/production/report/tick", "acme/production/report/tock"


@pytest.fixture(autouse=True)
def _deployed(cli: Cli, write: Write) -> None:
    """`tick` at revision 2 with tag x, and `tock` at revision 1 with tags x and y."""
    assert cli("task", "register", write("task.yaml", task_document())).status == 0
    assert cli("deploy", write("tick.yaml", trigger_document("tick", tags=["x"], description="first"))).status == 0
    newer = write("tick.yaml", trigger_document("tick", tags=["x"], description="second"))
    assert cli("deploy", newer, "--expected-revision", "1").status == 0
    assert cli("deploy", write("tock.yaml", trigger_document("tock", tags=["x", "y"]))).status == 0


def answer(result: CommandResult) -> Any:
    assert result.status == 0, result.err
    return json.loads(result.out)


def test_rollback_deploys_an_earlier_revision_again(cli: Cli) -> None:
    """R-09: the history has the reason."""
    back = answer(
        cli("--output", "json", "rollback", T, "--to", "1", "--expected-revision", "2", "--reason", "too early")
    )
    assert (back["revision"], back["spec"]["description"]) == (3, "first")
    assert "rollback to revision 1: too early" in cli("history", T).out


def test_rollback_and_rename_require_the_expected_revision(cli: Cli) -> None:
    """R-04: without it they are refused with the current one, which is never read by itself."""
    for arguments in (["rollback", T, "--to", "1"], ["rename", T, "tack"]):
        result = cli(*arguments)
        assert (result.status, result.out) == (4, "")
        assert "stands at revision 2" in result.err
    assert cli("rollback", T, "--to", "1", "--expected-revision", "1").status == 4
    assert cli("rollback", T, "--to", "7", "--expected-revision", "2").status == 3
    assert cli("rollback", T, "--expected-revision", "2").status == 2
    assert answer(cli("--output", "json", "show", T))["revision"] == 2


def test_rollback_brings_a_deleted_trigger_back(cli: Cli) -> None:
    """R-22: `delete` and the history name the two revisions that it needs."""
    cli("delete", T)
    back = answer(cli("--output", "json", "rollback", T, "--to", "2", "--expected-revision", "3"))
    assert (back["deleted"], back["active"], back["revision"]) == (False, True, 4)


def test_rename_keeps_the_history(cli: Cli) -> None:
    """R-22: a name in use is a conflict, a wrong one invalid."""
    assert cli("rename", T, "tock", "--expected-revision", "2").status == 4
    assert cli("rename", T, "Tack", "--expected-revision", "2").status == 5
    renamed = answer(cli("--output", "json", "rename", T, "tack", "--expected-revision", "2", "--reason", "clearer"))
    assert (renamed["name"], renamed["revision"]) == ("tack", 3)
    history = answer(cli("--output", "json", "history", T.replace("tick", "tack")))["items"]
    assert [(item["revision"], item["reason"]) for item in history] == [(3, "clearer"), (2, ""), (1, "")]
    assert cli("show", T).status == 3


def test_a_tag_changes_every_trigger_with_it(cli: Cli) -> None:
    """R-16: old and new revision of each, as a table or in the API's shape."""
    paused = cli("deactivate", "--tag", "x", "--reason", "quiet", "--until", "2026-03-03T00:00:00Z")
    assert (paused.status, paused.err) == (0, "")
    assert [line.split() for line in paused.out.splitlines()[1:]] == [[T, "2", "3", "yes"], [TOCK, "1", "2", "yes"]]
    assert answer(cli("--output", "json", "activate", "--tag", "y")) == {
        "items": [{"trigger": TOCK, "old_revision": 2, "new_revision": 3, "changed": True, "warnings": []}],
        "next_cursor": None,
    }
    assert answer(cli("--output", "json", "show", T))["status"]["deactivated_reason"] == "quiet"
    none = cli("delete", "--tag", "z")
    assert (none.status, len(none.out.splitlines()), none.err) == (0, 1, "no trigger has the tag 'z'\n")
    cli("delete", "--tag", "x")
    assert answer(cli("--output", "json", "list"))["items"] == []


@pytest.mark.parametrize("verb", ["activate", "deactivate", "delete"])
def test_a_trigger_and_a_tag_exclude_each_other(cli: Cli, verb: str) -> None:
    """R-16, U-01: neither, both, or a tag with a revision is wrong usage."""
    for arguments in ([], [T, "--tag", "x"], ["--tag", "x", "--expected-revision", "2"]):
        assert cli(verb, *arguments).status == 2
    assert len(answer(cli("--output", "json", "list", "--active"))["items"]) == 2


def test_a_bulk_change_that_one_trigger_refuses_changes_nothing(cli: Cli, write: Write) -> None:
    """R-16: the message has the reason."""
    once = trigger_document("once", tags=["x"], active=False, schedule={"at": "2026-03-02T08:00:01Z"})
    assert cli("deploy", write("once.yaml", once)).status == 0
    result = cli("deactivate", "--tag", "x", "--until", "2020-01-01T00:00:00Z")
    assert (result.status, result.out) == (5, "")
    assert "is past" in result.err


def test_registering_a_task_warns_on_standard_error(cli: Cli, write: Write) -> None:
    """R-15: the warning names the triggers, and standard output has only the answer."""
    keeps = task_document("v2", outputs={"state": {"type": "object"}})
    assert cli("task", "register", write("v2.yaml", keeps)).err == ""
    moved = trigger_document("tick", tags=["x"], task_version="v2")
    assert cli("deploy", write("moved.yaml", moved), "--expected-revision", "2").status == 0
    result = cli("--output", "json", "task", "register", write("v3.yaml", task_document("v3")))
    assert result.err.startswith("warning: ")
    assert T in result.err
    assert answer(result)["items"][0]["changed"] is True


def test_applying_a_folder_warns_as_registering_does(cli: Cli, write: Write, tmp_path: Path) -> None:
    """R-15, U-02: about the task versions in the folder."""
    cli("task", "register", write("v2.yaml", task_document("v2", outputs={"state": {"type": "object"}})))
    cli(
        "deploy",
        write("moved.yaml", trigger_document("tick", tags=["x"], task_version="v2")),
        "--expected-revision",
        "2",
    )
    (tmp_path / "folder").mkdir()
    write("folder/v3.yaml", task_document("v3"))
    result = cli("apply", "folder", "--yes")
    assert result.status == 0
    assert f"active triggers rely on it: {T}" in result.err
