"""`allow_destructive`, from the manifest to the task document."""

import json
from pathlib import Path

from reconcile.runs.runner import Runner, RunnerSettings
from tests.controller.asking import IS_NEW, NAME, Api, T, at, manifest
from tests.controller.conftest import Cli, Write
from tests.reconcile.scripted import ScriptedLauncher
from tests.world import World, task_document, trigger_document


def test_the_task_document_has_the_permission_of_the_trigger(world: World, tmp_path: Path) -> None:
    """E-15: as of the revision that made the run. `untrusted` is false: no source of events exists yet."""
    launcher = ScriptedLauncher()
    runner = Runner(
        world.database, world.observations, {"process": launcher}, settings=RunnerSettings(tmp_path / "work", tmp_path)
    )
    world.create(allow_destructive=True, overlap="allow")
    world.advance(minutes=1)
    world.resync()
    world.update("tick", 1, overlap="allow")
    world.advance(minutes=1)
    world.resync()
    runner.run_pass()
    flags = [(work.launch.input["untrusted"], work.launch.input["allow_destructive"]) for work in launcher.works]
    assert flags == [(False, True), (False, False)]


def test_a_deploy_with_allow_destructive_warns(api: Api, cli: Cli, write: Write) -> None:
    """E-15: in the answer and on standard error. Changes other than deploys do not warn."""
    answer = api.put(T, manifest(allow_destructive=True), IS_NEW).json()
    assert ["allow_destructive" in warning for warning in answer["warnings"]] == [True]
    assert api.post(f"{T}/deactivate", headers=at(1)).json()["warnings"] == []
    assert api.post(f"{T}/rollback", {"to": 1}, at(2)).json()["warnings"] == answer["warnings"]
    assert api.put(T, manifest(), at(2)).json()["warnings"] == []
    file = write("tick.yaml", trigger_document(allow_destructive=True))
    result = cli("--output", "json", "deploy", file, "--expected-revision", "3")
    assert result.err == f"warning: {answer['warnings'][0]}\n"
    assert json.loads(result.out)["revision"] == 4


def test_a_plan_with_allow_destructive_warns(cli: Cli, world: World, tmp_path: Path) -> None:
    """E-15, U-02: for each trigger by name, as table and JSON, and again when the plan is applied."""
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "a.json").write_text(json.dumps(trigger_document(allow_destructive=True)))
    (tmp_path / "f" / "b.json").write_text(json.dumps(trigger_document("tock")))
    (tmp_path / "f" / "c.json").write_text(json.dumps(task_document("v2")))
    assert f"! {NAME}: spec.allow_destructive is on" in cli("plan", "f").out
    [warning] = json.loads(cli("--output", "json", "plan", "f").out)["warnings"]
    assert warning.startswith(f"{NAME}: spec.allow_destructive is on")
    result = cli("--output", "json", "apply", "f", "--yes")
    assert f"warning: {warning}\n" in result.err
