"""A folder by command: the plan, and making it so."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconcile.decide.preconditions import Expected
from reconcile.triggers.caller import Caller
from reconcile.triggers.deploy import rollback_trigger
from revisions.errors import Unavailable
from tests.controller.conftest import ON_SQLITE, Cli, Said
from tests.waiting import PATIENCE
from tests.world import World, key, task_document, trigger_document

ROOT = Path(__file__).parents[2]
Fill = Callable[..., Path]


@pytest.fixture
def fill(tmp_path: Path) -> Fill:
    """Makes the folder `f` anew: file → documents or text; it calls itself `team` unless told otherwise."""

    def fill(found: dict[str, Any], origin: str | None = "team", name: str = "f") -> Path:
        root = tmp_path / name
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        if origin is not None:
            (root / "triggerctl.yaml").write_text(f"origin: {origin}\n")
        for file, content in found.items():
            path = root / file
            path.parent.mkdir(parents=True, exist_ok=True)
            documents = content if isinstance(content, list) else [content]
            texts = [each if isinstance(each, str) else json.dumps(each) for each in documents]
            path.write_text("\n---\n".join(texts))
        return root

    return fill


@pytest.fixture
def applied(cli: Cli, fill: Fill, world: World) -> dict[str, Any]:
    """A folder of two triggers, applied by `ci`."""
    found = {"a.yaml": trigger_document("a"), "deep/b.yml": trigger_document("b")}
    fill(found)
    assert cli("--actor", "ci", "apply", "f", "--yes").status == 0
    return found


def plan(cli: Cli, *options: str, status: int = 0) -> dict[str, Any]:
    said = cli("--output", "json", "plan", "f", *options)
    assert said.status == status, said.err
    shown: dict[str, Any] = json.loads(said.out)
    return shown


def steps(made: dict[str, Any]) -> list[tuple[str, str]]:
    return [(change["action"], change["name"].rpartition("/")[2]) for change in made["changes"]]


def names(cli: Cli) -> list[str]:
    return [item["name"] for item in json.loads(cli("--output", "json", "list").out)["items"]]


def failed(said: Said, status: int, *words: str) -> None:
    assert (said.status, said.out) == (status, ""), said.err
    for word in words:
        assert word in said.err


def test_a_new_folder_is_planned_applied_and_then_done(cli: Cli, fill: Fill, world: World) -> None:
    """U-02, R-22: tasks and triggers of all files; the origin is recorded; a second apply changes nothing."""
    fill(
        {
            "tasks.json": task_document("v2"),
            "triggers.yaml": [trigger_document("a", tags=["x"]), trigger_document("b", task_version="v2")],
            ".git/c.yaml": "no: [manifest",
            ".hidden.yaml": "no: [manifest",
            "README.md": "# not ours",
        }
    )
    planned = plan(cli, "--exit-code", status=10)
    assert planned["origin"] == "team"
    assert steps(planned) == [("register", "report@v2"), ("create", "a"), ("create", "b")]
    assert planned["changes"][1] == {
        "action": "create",
        "kind": "Trigger",
        "name": "acme/production/report/a",
        "revision": None,
        "differences": [
            {"path": "spec.schedule", "kind": "added", "before": None, "after": {"every": "1m"}},
            {"path": "spec.task_version", "kind": "added", "before": None, "after": "v1"},
            {"path": "tags", "kind": "added", "before": None, "after": ["x"]},
            {"path": "origin", "kind": "added", "before": None, "after": "team"},
        ],
        "drift": None,
    }
    assert names(cli) == []
    said = cli("--actor", "ci", "apply", "f", "--yes")
    assert said.status == 0, said.err
    assert "registered Task acme/production/report@v2\n" in said.out
    assert "created Trigger acme/production/report/b, revision 1\n" in said.out
    [revision] = world.history("a")
    assert (revision.origin, revision.actor, revision.reason) == ("team", "ci", "applied from team")
    again = cli("apply", "f")
    assert (again.status, again.out) == (0, "Nothing to do; 3 unchanged.\n")
    assert plan(cli, "--exit-code")["summary"] == {
        "register": 0,
        "create": 0,
        "change": 0,
        "delete": 0,
        "unchanged": 3,
        "drifted": 0,
        "not_in_folder": 0,
    }
    assert len(world.history("a")) == 1


def test_a_change_is_shown_from_and_to(cli: Cli, fill: Fill, applied: dict[str, Any]) -> None:
    """U-02: by path, the revision read, and what goes; plain in a pipe."""
    fill(applied | {"a.yaml": trigger_document("a", schedule={"every": "5m"}, description="every → five")})
    assert cli("plan", "f").out.splitlines() == [
        "~ change Trigger acme/production/report/a  (revision 1)",
        '    + spec.description     "every → five"',
        '    ~ spec.schedule.every  "1m" → "5m"',
        "",
        "1 trigger to change; 1 unchanged.",
    ]
    said = cli("--output", "json", "apply", "f", "--yes")
    [change] = json.loads(said.out)["changes"]
    assert (change["outcome"], change["new_revision"]) == ("done", 2)
    assert "1 trigger to change" in said.err
    assert plan(cli)["changes"] == []


def test_drift_is_shown_and_undone(cli: Cli, fill: Fill, world: World, applied: dict[str, Any]) -> None:
    """U-02: what somebody deployed by hand, who and when; applying brings the folder's version back."""
    world.update("a", 1, description="quick fix")
    [change] = plan(cli)["changes"]
    assert {name: change["drift"][name] for name in ("revision", "actor", "at", "origin")} == {
        "revision": 2,
        "actor": "ann",
        "at": "2026-03-02T08:00:00Z",
        "origin": "team",
    }
    assert "! revision 2 was not applied from here: ann at 2026-03-02T08:00:00Z" in cli("plan", "f").out
    assert cli("apply", "f", "--yes").status == 0
    assert [made.revision for made in world.history("a")] == [3, 2, 1]
    assert plan(cli)["changes"] == []
    fill(applied | {"a.yaml": trigger_document("a", description="new")})
    assert plan(cli)["changes"][0]["drift"] is None


def test_a_deletion_by_hand_is_shown_before_it_is_undone(cli: Cli, world: World, applied: dict[str, Any]) -> None:
    """U-02, R-05: it is a creation again, and who deleted it stands beside it."""
    world.delete("a", 1)
    [change] = plan(cli)["changes"]
    assert (change["action"], change["drift"]["action"], change["drift"]["actor"]) == ("create", "DELETE", "ann")
    assert "was deleted by ann at 2026-03-02T08:00:00Z; this brings it back" in cli("plan", "f").out
    assert cli("apply", "f", "--yes").status == 0
    assert names(cli) == ["a", "b"]


def test_an_operators_pause_survives(cli: Cli, fill: Fill, world: World, applied: dict[str, Any]) -> None:
    """R-20: a redeploy never un-pauses what the file does not name; the plan says so, and that is no change."""
    world.deactivate("a", 1, "client on holiday")
    planned = plan(cli, "--exit-code")
    assert planned["changes"] == []
    assert planned["inactive"] == [{"name": "acme/production/report/a", "reason": "client on holiday", "until": None}]
    assert "inactive (client on holiday)" in cli("plan", "f").out
    fill(applied | {"a.yaml": trigger_document("a", description="new")})
    assert plan(cli)["changes"][0]["drift"] is None
    assert cli("apply", "f", "--yes").status == 0
    newest = world.history("a")[0]
    assert (newest.revision, newest.active) == (3, False)
    fill(applied | {"a.yaml": trigger_document("a", active=True)})
    assert ("active", False, True) in [
        (found["path"], found["before"], found["after"]) for found in plan(cli)["changes"][0]["differences"]
    ]


def test_pruning_touches_only_what_came_from_here(cli: Cli, fill: Fill, world: World, applied: dict[str, Any]) -> None:
    """R-22: listed without --prune, deleted with it; what a hand or another folder made stays."""
    world.create("by-hand")
    fill({"c.yaml": trigger_document("c")}, origin="other", name="g")
    assert cli("apply", "g", "--yes").status == 0
    del applied["deep/b.yml"]
    fill(applied)
    planned = plan(cli, "--exit-code")
    assert (planned["changes"], planned["not_in_folder"]) == ([], ["acme/production/report/b"])
    assert "b is not in the folder; --prune would delete it" in cli("plan", "f").out
    assert steps(plan(cli, "--prune", "--exit-code", status=10)) == [("delete", "b")]
    assert names(cli) == ["a", "b", "by-hand", "c"]
    said = cli("apply", "f", "--prune", "--yes")
    assert said.status == 0
    assert "triggerctl rollback acme/production/report/b --to 1 --expected-revision 2" in said.err
    assert names(cli) == ["a", "by-hand", "c"]
    assert world.history("b")[0].reason == "no longer in team"
    rollback_trigger(world.database, world.observations, key("b"), 1, Expected(revision=2), Caller("ann"))
    assert names(cli) == ["a", "b", "by-hand", "c"]
    assert plan(cli)["not_in_folder"] == ["acme/production/report/b"]


def test_what_somebody_changed_is_said_before_it_is_pruned(cli: Cli, fill: Fill, world: World, applied: Any) -> None:
    """R-22: a deletion shows the hand that was there since."""
    world.update("b", 1, description="kept alive by hand")
    del applied["deep/b.yml"]
    fill(applied)
    [change] = plan(cli, "--prune")["changes"]
    assert (change["action"], change["drift"]["actor"]) == ("delete", "ann")


def test_an_emptied_folder_prunes_only_by_name(cli: Cli, fill: Fill, applied: dict[str, Any]) -> None:
    """R-22: a folder without triggers is more likely a mistake; `--prune --origin NAME` says that it is none."""
    fill({"tasks.yaml": task_document()})
    for command in (["plan", "f", "--prune"], ["apply", "f", "--prune", "--yes"]):
        failed(cli(*command), 2, "delete all of team, 2 in number", "--prune --origin")
    assert plan(cli)["not_in_folder"] == ["acme/production/report/a", "acme/production/report/b"]
    assert names(cli) == ["a", "b"]
    assert cli("apply", "f", "--prune", "--origin", "team", "--yes").status == 0
    assert names(cli) == []
    assert cli("apply", "f", "--prune", "--yes").status == 0


def test_pruning_needs_a_name(cli: Cli, fill: Fill, world: World) -> None:
    """R-22: without an origin nothing can be called the folder's own."""
    fill({"a.yaml": trigger_document("a")}, origin=None)
    failed(cli("apply", "f", "--prune", "--yes"), 2, "origin: NAME", "--origin NAME")
    assert cli("apply", "f", "--yes").status == 0
    assert world.history("a")[0].origin is None
    assert cli("apply", "f", "--origin", "team", "--yes").status == 0
    assert [made.origin for made in world.history("a")] == ["team", None]


def test_the_origin_is_a_name_not_a_path(cli: Cli, fill: Fill, world: World, applied: dict[str, Any]) -> None:
    """R-22: the folder moved elsewhere is the same folder; a name as R-01 has it."""
    fill(applied, name="elsewhere")
    assert cli("apply", "elsewhere", "--prune").out == "Nothing to do; 2 unchanged.\n"
    fill({"a.yaml": trigger_document("a")}, origin=None, name="without")
    assert cli("plan", "without", "--origin", "team").out.endswith("; 1 unchanged, 1 not in the folder.\n")
    failed(cli("plan", "f", "--origin", "../team"), 5, "'../team' is not a valid origin")
    fill(applied, origin="Team")
    failed(cli("plan", "f"), 5, "f/triggerctl.yaml: origin: 'Team' is not a valid origin")


def test_another_folders_trigger_is_taken_over_openly(cli: Cli, fill: Fill, world: World, applied: Any) -> None:
    """R-22: whose it was is shown; after that the other folder does not prune it."""
    fill({"a.yaml": trigger_document("a")}, origin="other", name="g")
    assert '~ origin  "team" → "other"' in cli("plan", "g").out
    assert cli("apply", "g", "--yes").status == 0
    fill({"b.yaml": trigger_document("b")})
    assert plan(cli, "--prune")["changes"] == []


def test_all_faults_of_all_files_are_told_at_once(cli: Cli, fill: Fill, world: World) -> None:
    """U-02, R-18, R-23: file, document and line of each; nothing is changed when anything is wrong."""
    fill(
        {
            "a.yaml": trigger_document("a"),
            "b.yaml": [trigger_document("b", shedule={}), trigger_document("c", schedule={"cron": "0 25 * * *"})],
            "broken.yaml": "kind: [1,\nfoo",
            "kinds.yaml": {"apiVersion": "triggerctl/v1", "kind": "Workflow"},
            "task.yaml": task_document("v2", process={"command": "true"}),
            "z/again.yaml": trigger_document("a"),
        }
    )
    for command in ("plan", "apply"):
        said = cli(command, "f", *(["--yes"] if command == "apply" else []))
        failed(
            said,
            5,
            "f/b.yaml, document 1, line 1: spec.shedule: is not a known field (did you mean schedule?)",
            "f/b.yaml, document 2, line 3: spec.schedule.cron:",
            "f/broken.yaml: line 2, column",
            "f/kinds.yaml: kind: is 'Workflow' (one of Task, Trigger, Calendar)",
            "f/task.yaml: spec.process.command:",
            "f/z/again.yaml: Trigger acme/production/report/a stands in f/a.yaml too",
        )
    assert names(cli) == []


@pytest.mark.parametrize(
    ("document", "status", "words"),
    [
        (trigger_document("z", task_version="v9"), 5, "f/z.yaml: spec.task_version: there is no report v9"),
        (trigger_document("z", schedule={"at": "2026-01-01T00:00:00Z"}), 5, "f/z.yaml: spec.schedule.at:"),
        (trigger_document("z", schedule={"cron": "0 0 30 2 *"}), 5, "f/z.yaml: spec.schedule.cron:"),
        (task_document("v1", timeout="5m"), 4, "acme/production/report@v1 is registered with another spec"),
    ],
    ids=["task version", "past", "never", "task changed in place"],
)
def test_what_the_server_would_refuse_stops_everything(
    cli: Cli, fill: Fill, world: World, document: Any, status: int, words: str
) -> None:
    """R-14, R-23, S-02, U-02: known from the plan on, so that no folder is applied by halves."""
    fill({"a.yaml": trigger_document("a"), "z.yaml": document})
    failed(cli("plan", "f"), status, words)
    failed(cli("apply", "f", "--yes"), status, words)
    assert names(cli) == []


def test_a_deploy_in_between_is_not_overwritten(
    cli: Cli, fill: Fill, world: World, applied: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-04, U-02: that trigger is a conflict, the others are done, deletions are held back; a second apply ends it."""
    new = {"a.yaml": trigger_document("a", description="new"), "c.yaml": trigger_document("c")}
    fill(new)
    monkeypatch.setattr("controller.cli.plan._ask", lambda _: world.update("a", 1, description="in between"))
    said = cli("--output", "json", "apply", "f", "--prune")
    assert said.status == 4
    made = json.loads(said.out)
    assert [change["outcome"] for change in made["changes"]] == ["conflict", "done", "held_back"]
    assert made["changes"][0]["detail"].endswith("stands at revision 2, not 1, changed by ann at 2026-03-02T08:00:00Z")
    assert "1 of 3 steps could not be done" in said.err
    assert json.loads(world.history("a")[0].spec)["description"] == "in between"
    assert names(cli) == ["a", "b", "c"]
    assert plan(cli)["changes"][0]["drift"]["actor"] == "ann"
    assert cli("apply", "f", "--prune", "--yes").status == 0
    assert names(cli) == ["a", "c"]


def test_a_creation_in_between_is_a_conflict(
    cli: Cli, fill: Fill, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-05, U-02: what the plan found new must still be so."""
    fill({"a.yaml": trigger_document("a")})
    monkeypatch.setattr("controller.cli.plan._ask", lambda _: world.create("a", description="faster"))
    said = cli("apply", "f")
    assert said.status == 4
    assert "conflict Trigger acme/production/report/a: acme/production/report/a exists already" in said.out
    assert len(world.history("a")) == 1


def test_without_a_terminal_apply_does_not_go_ahead_by_itself(cli: Cli, fill: Fill, world: World) -> None:
    """U-02: it shows the plan, refuses with 2 and says why."""
    fill({"a.yaml": trigger_document("a")})
    said = cli("apply", "f")
    assert said.status == 2
    assert "1 trigger to create" in said.out
    assert "not a terminal" in said.err
    assert "--yes" in said.err
    assert names(cli) == []


@ON_SQLITE
@pytest.mark.parametrize(("answer", "status", "expected"), [("n", 1, []), ("y", 0, ["a"])])
def test_in_a_terminal_it_asks(
    cli: Cli, fill: Fill, database_url: str, world: World, answer: str, status: int, expected: list[str]
) -> None:
    """U-02: the plan in colours, then a question; only a yes goes on."""
    fill({"a.yaml": trigger_document("a")})
    outer, inner = os.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "controller.cli.main", "--database-url", database_url, "apply", "f"],
        stdin=inner,
        stdout=inner,
        stderr=inner,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(inner)
    os.write(outer, f"{answer}\n".encode())
    shown = b""
    try:
        while part := os.read(outer, 65536):
            shown += part
    except OSError:
        pass  # the terminal ends with the command
    os.close(outer)
    assert child.wait(PATIENCE) == status
    assert "Apply this step? [y/N]" in re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
    assert "\x1b[1;32mcreate Trigger acme/production/report/a" in shown.decode()
    assert names(cli) == expected


def test_links_in_a_folder(cli: Cli, fill: Fill, world: World, tmp_path: Path) -> None:
    """U-02: as a ConfigMap is mounted, each file once; round in a circle is no harm, out of the folder is refused."""
    root = fill({"..data/a.yaml": trigger_document("a"), "deep/b.yaml": trigger_document("b")})
    (root / "a.yaml").symlink_to("..data/a.yaml")
    (root / "deep" / "up").symlink_to("..")
    (root / "same").symlink_to("deep")
    assert steps(plan(cli)) == [("create", "a"), ("create", "b")]
    (tmp_path / "outside").mkdir()
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "lost.yaml").symlink_to("nowhere")
    (root / "loop.yaml").symlink_to("loop.yaml")
    failed(
        cli("plan", "f"), 5, "f/out: is a link out of the folder", "f/lost.yaml: is a link", "f/loop.yaml: is a link"
    )


def test_folders_that_are_none(cli: Cli, fill: Fill, world: World) -> None:
    """U-02: not there, a file, nothing in it; settings of a folder that are not known."""
    root = fill({"a.yaml": trigger_document("a")})
    failed(cli("plan", "none"), 5, "none: there is no such folder")
    failed(cli("plan", "f/a.yaml"), 5, "f/a.yaml: is not a folder", "triggerctl deploy")
    (root / "triggerctl.yaml").write_text("orign: team\nresync_interval: 5s\n")
    failed(cli("plan", "f"), 5, "f/triggerctl.yaml: orign: is not a known setting of a folder (did you mean origin?)")
    fill({})
    said = cli("plan", "f", "--exit-code")
    assert (said.status, said.out) == (0, "Nothing to do; 0 unchanged.\n")
    assert "there is no manifest in f" in said.err


def test_the_folder_of_the_start(
    cli: Cli, fill: Fill, world: World, applied: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """U-02: its triggerctl.yaml may hold the controller's settings and the folder's name side by side."""
    root = fill(applied)
    (root / "triggerctl.yaml").write_text("origin: team\nresync_interval: 5s\n")
    monkeypatch.chdir(root)
    assert cli("apply", ".", "--prune").out == "Nothing to do; 2 unchanged.\n"


def test_reading_costs_what_changes_not_what_there_is(
    cli: Cli, fill: Fill, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U-02: lists serve as far as they can, in parts too; a name is asked for only when it is going to change."""
    found = {f"{name}.yaml": trigger_document(name) for name in "abcdefgh"}
    fill(found)
    assert cli("apply", "f", "--yes").status == 0
    from controller.cli.client import Client

    asked: list[str] = []
    ask = Client.request

    def counted(self: Client, method: str, path: str, *rest: Any, **options: Any) -> Any:
        asked.append(path)
        return ask(self, method, path, *rest, **options)

    monkeypatch.setattr(Client, "request", counted)
    monkeypatch.setattr("controller.cli.client.MOST_AT_ONCE", 5)
    fill(found | {"a.yaml": trigger_document("a", description="new")})
    assert steps(plan(cli)) == [("change", "a")]
    assert sorted(asked) == ["/demand", "/tasks", *["/triggers"] * 4, "/triggers/acme/production/report/a/revisions"]


def test_a_server_that_is_lost_ends_it(cli: Cli, fill: Fill, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """U-02: what was done is told, what was not reached is not tried, and the exit says that it can be repeated."""
    fill({f"{name}.yaml": trigger_document(name) for name in "abc"})
    from controller.cli.client import Client

    put = Client.put

    def lost(self: Client, path: str, *rest: Any, **options: Any) -> Any:
        if path.endswith("/b"):
            raise Unavailable("http://there cannot be reached")
        return put(self, path, *rest, **options)

    monkeypatch.setattr(Client, "put", lost)
    said = cli("--output", "json", "apply", "f", "--yes")
    assert said.status == 7
    assert [change["outcome"] for change in json.loads(said.out)["changes"]] == ["done", "failed", "held_back"]
    assert "cannot be reached" in said.err
    monkeypatch.setattr(Client, "put", put)
    assert "1 unchanged" in cli("apply", "f", "--yes").out
    assert names(cli) == ["a", "b", "c"]
