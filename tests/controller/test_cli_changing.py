"""Going back, taking another name, and many at once, by command."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.controller.conftest import Cli, Said, Write
from tests.world import task_document, trigger_document

T, TOCK = "acme/production/report/tick", "acme/production/report/tock"


@pytest.fixture(autouse=True)
def _deployed(cli: Cli, write: Write) -> None:
    """`tick` at revision 2, with tag x; and `tock` at 1, with tags x and y."""
    assert cli("task", "register", write("task.yaml", task_document())).status == 0
    assert cli("deploy", write("tick.yaml", trigger_document("tick", tags=["x"], description="first"))).status == 0
    newer = write("tick.yaml", trigger_document("tick", tags=["x"], description="second"))
    assert cli("deploy", newer, "--expected-revision", "1").status == 0
    assert cli("deploy", write("tock.yaml", trigger_document("tock", tags=["x", "y"]))).status == 0


def answer(said: Said) -> Any:
    assert said.status == 0, said.err
    return json.loads(said.out)


def test_going_back(cli: Cli) -> None:
    """R-09: `rollback` deploys the revision again; the history says why."""
    back = answer(
        cli("--output", "json", "rollback", T, "--to", "1", "--expected-revision", "2", "--reason", "too early")
    )
    assert (back["revision"], back["spec"]["description"]) == (3, "first")
    assert "rollback to revision 1: too early" in cli("history", T).out


def test_going_back_wants_the_revision_that_was_read(cli: Cli) -> None:
    """R-04: left out, it is refused and the current one told; it is never read by itself."""
    for arguments in (["rollback", T, "--to", "1"], ["rename", T, "tack"]):
        said = cli(*arguments)
        assert (said.status, said.out) == (4, "")
        assert "stands at revision 2" in said.err
    assert cli("rollback", T, "--to", "1", "--expected-revision", "1").status == 4
    assert cli("rollback", T, "--to", "7", "--expected-revision", "2").status == 3
    assert cli("rollback", T, "--expected-revision", "2").status == 2
    assert answer(cli("--output", "json", "show", T))["revision"] == 2


def test_a_deletion_is_undone(cli: Cli) -> None:
    """R-22: with the two revisions that `delete` and the history tell."""
    cli("delete", T)
    back = answer(cli("--output", "json", "rollback", T, "--to", "2", "--expected-revision", "3"))
    assert (back["deleted"], back["active"], back["revision"]) == (False, True, 4)


def test_another_name(cli: Cli) -> None:
    """R-22: `rename` keeps the history; a name that is held is a conflict, a wrong one invalid."""
    assert cli("rename", T, "tock", "--expected-revision", "2").status == 4
    assert cli("rename", T, "Tack", "--expected-revision", "2").status == 5
    renamed = answer(cli("--output", "json", "rename", T, "tack", "--expected-revision", "2", "--reason", "clearer"))
    assert (renamed["name"], renamed["revision"]) == ("tack", 3)
    history = answer(cli("--output", "json", "history", T.replace("tick", "tack")))["items"]
    assert [(item["revision"], item["reason"]) for item in history] == [(3, "clearer"), (2, ""), (1, "")]
    assert cli("show", T).status == 3


def test_all_with_a_tag(cli: Cli) -> None:
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
    assert (none.status, len(none.out.splitlines()), none.err) == (0, 1, "no trigger bears the tag 'z'\n")
    cli("delete", "--tag", "x")
    assert answer(cli("--output", "json", "list"))["items"] == []


@pytest.mark.parametrize("verb", ["activate", "deactivate", "delete"])
def test_either_a_trigger_or_a_tag(cli: Cli, verb: str) -> None:
    """R-16, U-01: neither, both, and a revision for many are wrong usage."""
    for arguments in ([], [T, "--tag", "x"], ["--tag", "x", "--expected-revision", "2"]):
        assert cli(verb, *arguments).status == 2
    assert len(answer(cli("--output", "json", "list", "--active"))["items"]) == 2


def test_one_that_refuses_is_named(cli: Cli, write: Write) -> None:
    """R-16: exit 4, and the trigger beside what is wrong with it."""
    once = trigger_document("once", tags=["x"], active=False, schedule={"at": "2026-03-02T08:00:01Z"})
    assert cli("deploy", write("once.yaml", once)).status == 0
    said = cli("deactivate", "--tag", "x", "--until", "2020-01-01T00:00:00Z")
    assert (said.status, said.out) == (5, "")
    assert "is past" in said.err


def test_registering_warns_on_standard_error(cli: Cli, write: Write) -> None:
    """R-15: the warning names the triggers, and the answer stays alone on standard output."""
    keeps = task_document("v2", outputs={"state": {"type": "object"}})
    assert cli("task", "register", write("v2.yaml", keeps)).err == ""
    moved = trigger_document("tick", tags=["x"], task_version="v2")
    assert cli("deploy", write("moved.yaml", moved), "--expected-revision", "2").status == 0
    said = cli("--output", "json", "task", "register", write("v3.yaml", task_document("v3")))
    assert said.err.startswith("warning: ")
    assert T in said.err
    assert answer(said)["items"][0]["changed"] is True


def test_applying_a_folder_warns_too(cli: Cli, write: Write, tmp_path: Path) -> None:
    """R-15, U-02: a task version that a folder brings is registered with the same warning."""
    cli("task", "register", write("v2.yaml", task_document("v2", outputs={"state": {"type": "object"}})))
    cli(
        "deploy",
        write("moved.yaml", trigger_document("tick", tags=["x"], task_version="v2")),
        "--expected-revision",
        "2",
    )
    (tmp_path / "folder").mkdir()
    write("folder/v3.yaml", task_document("v3"))
    said = cli("apply", "folder", "--yes")
    assert said.status == 0
    assert f"active triggers rely on it: {T}" in said.err
