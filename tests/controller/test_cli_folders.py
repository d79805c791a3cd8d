"""The commands `plan` and `apply` for a folder of manifests."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller import settings
from controller.app import create_app
from controller.cli.client import Client
from controller.cli.folders import manifests
from controller.cli.folders.commands import make_plan
from controller.cli.folders.steps import apply_plan, lost_connection
from controller.services import Services
from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.triggers.deploy import rollback_trigger
from tests.controller.conftest import ON_SQLITE, Cli, CommandResult, Confirmation, Network, Terminal
from tests.world import World, key, task_document, trigger_document

pytestmark = ON_SQLITE  # test_api_*.py test the same requests on PostgreSQL too

Fill = Callable[..., Path]


@pytest.fixture
def fill(tmp_path: Path) -> Fill:
    """Create the folder `f` anew, from file → documents or text, with the origin `team` unless given."""

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
    """Files of a folder with two triggers, applied by `ci`."""
    files = {"a.yaml": trigger_document("a"), "deep/b.yml": trigger_document("b")}
    fill(files)
    assert cli("--actor", "ci", "apply", "f", "--yes").status == 0
    return files


def plan(cli: Cli, *options: str, status: int = 0) -> dict[str, Any]:
    result = cli("--output", "json", "plan", "f", *options)
    assert result.status == status, result.err
    shown: dict[str, Any] = json.loads(result.out)
    return shown


def steps(made: dict[str, Any]) -> list[tuple[str, str]]:
    return [(change["action"], change["name"].rpartition("/")[2]) for change in made["changes"]]


def names(cli: Cli) -> list[str]:
    return [item["name"] for item in json.loads(cli("--output", "json", "list").out)["items"]]


def failed(result: CommandResult, status: int, *words: str) -> None:
    assert (result.status, result.out) == (status, ""), result.err
    for word in words:
        assert word in result.err


def test_a_new_folder_is_planned_applied_and_then_done(cli: Cli, fill: Fill, world: World) -> None:
    """U-02, R-22: the origin is recorded, and a second apply changes nothing."""
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
    result = cli("--actor", "ci", "apply", "f", "--yes")
    assert result.status == 0, result.err
    assert "registered Task acme/production/report@v2\n" in result.out
    assert "created Trigger acme/production/report/b, revision 1\n" in result.out
    [revision] = world.history("a")
    assert (revision.origin, revision.actor, revision.reason) == ("team", "ci", "applied from team")
    repeated = cli("apply", "f")
    assert (repeated.status, repeated.out) == (0, "Nothing to do; 3 unchanged.\n")
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


def test_a_plan_shows_old_and_new_value_of_each_path(cli: Cli, fill: Fill, applied: dict[str, Any]) -> None:
    """U-02: with the revision that was read; plain in a pipe."""
    fill(applied | {"a.yaml": trigger_document("a", schedule={"every": "5m"}, description="every → five")})
    assert cli("plan", "f").out.splitlines() == [
        "~ change Trigger acme/production/report/a  (revision 1)",
        '    + spec.description     "every → five"',
        '    ~ spec.schedule.every  "1m" → "5m"',
        "",
        "1 trigger to change; 1 unchanged.",
    ]
    result = cli("--output", "json", "apply", "f", "--yes")
    [change] = json.loads(result.out)["changes"]
    assert (change["outcome"], change["new_revision"]) == ("done", 2)
    assert "1 trigger to change" in result.err
    assert plan(cli)["changes"] == []


def test_a_change_by_hand_is_shown_and_undone(cli: Cli, fill: Fill, world: World, applied: dict[str, Any]) -> None:
    """U-02: with its actor and time."""
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
    """U-02, R-05: the plan creates the trigger again and names who deleted it."""
    world.delete("a", 1)
    [change] = plan(cli)["changes"]
    assert (change["action"], change["drift"]["action"], change["drift"]["actor"]) == ("create", "DELETE", "ann")
    assert "was deleted by ann at 2026-03-02T08:00:00Z; this brings it back" in cli("plan", "f").out
    assert cli("apply", "f", "--yes").status == 0
    assert names(cli) == ["a", "b"]


def test_apply_keeps_the_pause_of_an_operator(cli: Cli, fill: Fill, world: World, applied: dict[str, Any]) -> None:
    """R-20: unless the file has `active`; the plan shows the pause, which is no change."""
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


def test_prune_deletes_only_triggers_with_the_origin_of_the_folder(
    cli: Cli, fill: Fill, world: World, applied: dict[str, Any]
) -> None:
    """R-22: without --prune they are listed; triggers made by hand or from another folder stay."""
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
    result = cli("apply", "f", "--prune", "--yes")
    assert result.status == 0
    assert "triggerctl rollback acme/production/report/b --to 1 --expected-revision 2" in result.err
    assert names(cli) == ["a", "by-hand", "c"]
    assert world.history("b")[0].reason == "no longer in team"
    rollback_trigger(world.database, world.observations, key("b"), 1, Expected(revision=2), Caller("ann"))
    assert names(cli) == ["a", "b", "by-hand", "c"]
    assert plan(cli)["not_in_folder"] == ["acme/production/report/b"]


def test_a_plan_names_who_changed_a_trigger_that_prune_deletes(
    cli: Cli, fill: Fill, world: World, applied: Any
) -> None:
    """R-22: since the folder was applied."""
    world.update("b", 1, description="kept alive by hand")
    del applied["deep/b.yml"]
    fill(applied)
    [change] = plan(cli, "--prune")["changes"]
    assert (change["action"], change["drift"]["actor"]) == ("delete", "ann")


def test_prune_of_an_emptied_folder_requires_the_origin(cli: Cli, fill: Fill, applied: dict[str, Any]) -> None:
    """R-22: a folder without triggers is more likely a mistake; `--prune --origin NAME` confirms it."""
    fill({"tasks.yaml": task_document()})
    for command in (["plan", "f", "--prune"], ["apply", "f", "--prune", "--yes"]):
        failed(cli(*command), 2, "would delete all 2 of team", "--prune --origin")
    assert plan(cli)["not_in_folder"] == ["acme/production/report/a", "acme/production/report/b"]
    assert names(cli) == ["a", "b"]
    assert cli("apply", "f", "--prune", "--origin", "team", "--yes").status == 0
    assert names(cli) == []
    assert cli("apply", "f", "--prune", "--yes").status == 0


def test_prune_requires_an_origin(cli: Cli, fill: Fill, world: World) -> None:
    """R-22: without one no trigger is known to be the folder's."""
    fill({"a.yaml": trigger_document("a")}, origin=None)
    failed(cli("apply", "f", "--prune", "--yes"), 2, "origin: NAME", "--origin NAME")
    assert cli("apply", "f", "--yes").status == 0
    assert world.history("a")[0].origin is None
    assert cli("apply", "f", "--origin", "team", "--yes").status == 0
    assert [made.origin for made in world.history("a")] == ["team", None]


def test_the_origin_is_a_name_not_a_path(cli: Cli, fill: Fill, world: World, applied: dict[str, Any]) -> None:
    """R-22: a moved folder is the same folder; the name follows R-01."""
    fill(applied, name="elsewhere")
    assert cli("apply", "elsewhere", "--prune").out == "Nothing to do; 2 unchanged.\n"
    fill({"a.yaml": trigger_document("a")}, origin=None, name="without")
    assert cli("plan", "without", "--origin", "team").out.endswith("; 1 unchanged, 1 not in the folder.\n")
    failed(cli("plan", "f", "--origin", "../team"), 5, "'../team' is not a valid origin")
    fill(applied, origin="Team")
    failed(cli("plan", "f"), 5, "f/triggerctl.yaml: origin: 'Team' is not a valid origin")


def test_a_trigger_taken_over_from_another_folder_is_shown(cli: Cli, fill: Fill, world: World, applied: Any) -> None:
    """R-22: with its old origin; afterwards the other folder does not prune it."""
    fill({"a.yaml": trigger_document("a")}, origin="other", name="g")
    assert '~ origin  "team" → "other"' in cli("plan", "g").out
    assert cli("apply", "g", "--yes").status == 0
    fill({"b.yaml": trigger_document("b")})
    assert plan(cli, "--prune")["changes"] == []


def test_all_faults_of_all_files_are_reported_at_once(cli: Cli, fill: Fill, world: World) -> None:
    """U-02, R-18, R-23: with file, document and line; nothing is changed."""
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
        result = cli(command, "f", *(["--yes"] if command == "apply" else []))
        failed(
            result,
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
def test_a_manifest_that_the_server_would_refuse_stops_the_plan(
    cli: Cli, fill: Fill, world: World, document: Any, status: int, words: str
) -> None:
    """R-14, R-23, S-02, U-02: so that no folder is applied in part."""
    fill({"a.yaml": trigger_document("a"), "z.yaml": document})
    failed(cli("plan", "f"), status, words)
    failed(cli("apply", "f", "--yes"), status, words)
    assert names(cli) == []


def test_a_deploy_after_the_plan_is_not_overwritten(
    cli: Cli, fill: Fill, world: World, applied: dict[str, Any]
) -> None:
    """R-04, U-02: the step is a conflict, the others are done except deletions, and a second apply completes it."""
    new = {"a.yaml": trigger_document("a", description="new"), "c.yaml": trigger_document("c")}
    fill(new)
    deploy_first = Confirmation(lambda: world.update("a", 1, description="in between"))
    result = cli("--output", "json", "apply", "f", "--prune", stdin=deploy_first)
    assert result.status == 4
    document = json.loads(result.out)
    assert [change["outcome"] for change in document["changes"]] == ["conflict", "done", "held_back"]
    detail = document["changes"][0]["detail"]
    assert detail.endswith("stands at revision 2, not 1, changed by ann at 2026-03-02T08:00:00Z")
    assert "1 of 3 steps could not be done" in result.err
    assert json.loads(world.history("a")[0].spec)["description"] == "in between"
    assert names(cli) == ["a", "b", "c"]
    assert plan(cli)["changes"][0]["drift"]["actor"] == "ann"
    assert cli("apply", "f", "--prune", "--yes").status == 0
    assert names(cli) == ["a", "c"]


def test_a_creation_after_the_plan_is_a_conflict(cli: Cli, fill: Fill, world: World) -> None:
    """R-05, U-02: a trigger that the plan found new must still be new."""
    fill({"a.yaml": trigger_document("a")})
    result = cli("apply", "f", stdin=Confirmation(lambda: world.create("a", description="faster")))
    assert result.status == 4
    assert "conflict Trigger acme/production/report/a: acme/production/report/a exists already" in result.out
    assert len(world.history("a")) == 1


def test_apply_without_a_terminal_requires_yes(cli: Cli, fill: Fill, world: World) -> None:
    """U-02: it shows the plan and exits with 2."""
    fill({"a.yaml": trigger_document("a")})
    result = cli("apply", "f")
    assert result.status == 2
    assert "1 trigger to create" in result.out
    assert "not a terminal" in result.err
    assert "--yes" in result.err
    assert names(cli) == []


@pytest.mark.parametrize(("answer", "status", "expected"), [("n", 1, []), ("y", 0, ["a"])])
def test_apply_asks_at_a_terminal_and_continues_only_after_a_yes(
    cli: Cli, terminal: Terminal, fill: Fill, world: World, answer: str, status: int, expected: list[str]
) -> None:
    """U-02: the plan is shown in colours, then the question."""
    fill({"a.yaml": trigger_document("a")})
    result = terminal("apply", "f", keys=f"{answer}\n")
    assert result.status == status
    assert "Apply this step? [y/N]" in re.sub(r"\x1b\[[0-9;]*m", "", result.out)
    assert "\x1b[1;32mcreate Trigger acme/production/report/a" in result.out
    assert names(cli) == expected


def test_links_in_a_folder_are_followed_but_not_out_of_it(cli: Cli, fill: Fill, world: World, tmp_path: Path) -> None:
    """U-02: as a ConfigMap is mounted; each file counts once, and cycles do no harm."""
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


def test_a_missing_empty_or_wrong_folder_is_reported(cli: Cli, fill: Fill, world: World) -> None:
    """U-02: and so is an unknown key in its settings."""
    root = fill({"a.yaml": trigger_document("a")})
    failed(cli("plan", "none"), 5, "none: there is no such folder")
    failed(cli("plan", "f/a.yaml"), 5, "f/a.yaml: is not a folder", "triggerctl deploy")
    (root / "triggerctl.yaml").write_text("orign: team\nresync_interval: 5s\n")
    failed(cli("plan", "f"), 5, "f/triggerctl.yaml: orign: is not a known setting of a folder (did you mean origin?)")
    fill({})
    result = cli("plan", "f", "--exit-code")
    assert (result.status, result.out) == (0, "Nothing to do; 0 unchanged.\n")
    assert "there is no manifest in f" in result.err


def test_the_settings_file_of_the_controller_may_name_the_origin(
    cli: Cli, fill: Fill, world: World, applied: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """U-02: settings and origin may be in the same triggerctl.yaml."""
    root = fill(applied)
    (root / "triggerctl.yaml").write_text("origin: team\nresync_interval: 5s\n")
    monkeypatch.chdir(root)
    assert cli("apply", ".", "--prune").out == "Nothing to do; 2 unchanged.\n"


def test_a_plan_reads_lists_and_only_the_triggers_that_will_change(cli: Cli, fill: Fill, world: World) -> None:
    """U-02: the number of requests depends on the changes, not on the size of the folder."""
    files = {f"{name}.yaml": trigger_document(name) for name in "abcdefgh"}
    fill(files)
    assert cli("apply", "f", "--yes").status == 0
    root = fill(files | {"a.yaml": trigger_document("a", description="new")})
    paths: list[str] = []
    app = create_app(Services.over(world.database, settings.load()))
    record = {"request": [lambda request: paths.append(request.url.path.removeprefix("/api/v1"))]}
    with httpx.Client(transport=Network(app), base_url="http://test", event_hooks=record) as connection:
        plan_made = make_plan(Client(connection), manifests.read(str(root)), prune=False, origin=None)
    assert [str(change.key) for change in plan_made.changes] == ["acme/production/report/a"]
    revisions = "/triggers/acme/production/report/a/revisions"
    assert sorted(paths) == ["/demand", "/tasks", "/triggers", "/triggers", revisions]


def test_a_lost_server_ends_apply_without_trying_the_rest(cli: Cli, fill: Fill, world: World) -> None:
    """U-02: the completed steps are reported, and apply can be repeated."""
    root = fill({f"{name}.yaml": trigger_document(name) for name in "abc"})
    app = create_app(Services.over(world.database, settings.load()))

    class LosesB(Network):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.method == "PUT" and request.url.path.endswith("/b"):
                raise httpx.ConnectError("no route to host")
            return super().handle_request(request)

    with httpx.Client(transport=LosesB(app), base_url="http://there") as connection:
        client = Client(connection)
        results = list(apply_plan(client, make_plan(client, manifests.read(str(root)), prune=False, origin=None)))
    assert [result.outcome.value for result in results] == ["done", "failed", "held_back"]
    assert str(lost_connection(results)) == "http://there cannot be reached: no route to host"
    assert "1 unchanged" in cli("apply", "f", "--yes").out
    assert names(cli) == ["a", "b", "c"]
