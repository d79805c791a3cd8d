"""The main path: deployed over HTTP, run under a hand-driven clock, read by the command line."""

import json
from pathlib import Path

import pytest

from reconcile.decide.admission import Pace
from reconcile.plugins import launchers
from reconcile.runs.runner import Runner, RunnerSettings
from revisions.clock import HandClock
from revisions.store.database import Database
from tests.controller.asking import IS_NEW, NAME, Api, T, at, manifest, task_manifest
from tests.controller.conftest import Cli
from tests.waiting import eventually
from tests.world import World

SCRIPT = """
import json, os, sys
seen = json.load(sys.stdin)
print("report for", seen["run"]["scheduled_at"])
json.dump({"rows": seen["input"]["rows"], "first": seen["is_first_run"]}, open(os.environ["TRIGGERCTL_OUTPUT"], "w"))
"""


@pytest.fixture
def runner(database: Database, world: World, tmp_path: Path) -> Runner:
    settings = RunnerSettings(work_dir=tmp_path / "work", task_root=tmp_path)
    return Runner(database, world.observations, launchers(), settings=settings)


def test_a_deployed_trigger_runs_and_has_a_history(api: Api, cli: Cli, world: World, runner: Runner) -> None:
    """R-03, L-01, X-02: deploy → revision → reconcile → run → history, all parts real."""
    task = task_manifest(process={"command": ["python3", "-c", SCRIPT]})
    assert api.put("/tasks/acme/production/report/v2", task).status_code == 201
    spec = {"task_version": "v2", "schedule": {"cron": "*/5 * * * *", "timezone": "Europe/Berlin"}}
    assert api.put(T, manifest(**spec, input={"rows": 1}), IS_NEW).status_code == 201
    assert api.put(T, manifest(**spec, input={"rows": 7}), at(1)).status_code == 200
    world.resync()
    for _ in range(2):
        world.advance(minutes=5)
        world.resync()
        runner.run_pass()
        eventually(lambda: runner.run_pass().live == 0)
    runs = json.loads(cli("--output", "json", "runs", "list").out)["items"]
    assert [(run["scheduled_at"], run["status"], run["revision"]) for run in runs] == [
        ("2026-03-02T08:10:00Z", "succeeded", 2),
        ("2026-03-02T08:05:00Z", "succeeded", 2),
    ]
    assert [run["occurrence_id"] for run in runs] == [f"cron/2026-03-02T09:{m}:00/Europe/Berlin" for m in ("10", "05")]
    assert [run["output"] for run in runs] == [{"rows": 7, "first": False}, {"rows": 7, "first": True}]
    assert cli("runs", "logs", runs[0]["id"]).out == "report for 2026-03-02T08:10:00Z\n"
    history = json.loads(cli("--output", "json", "history", NAME).out)["items"]
    assert [(item["revision"], item["action"], item["actor"]) for item in history] == [
        (2, "DEPLOY", "local"),
        (1, "DEPLOY", "local"),
    ]
    shown = json.loads(cli("--output", "json", "show", NAME).out)["status"]
    assert (shown["last_outcome"], shown["last_run_id"], shown["run_count"]) == ("started", runs[0]["id"], 2)
    assert shown["next_fire_at"] == "2026-03-02T08:15:00Z"


def test_a_task_that_always_fails_deactivates_its_trigger(
    api: Api, world: World, runner: Runner, clock: HandClock
) -> None:
    """X-07: after five failed runs, with reason `failures` and the last error."""
    task = task_manifest(process={"command": ["sh", "-c", "echo no such customer >&2; exit 3"]})
    assert api.put("/tasks/acme/production/report/v2", task).status_code == 201
    api.create(task_version="v2", retry={"max_attempts": 1})
    world.loop = world.another_loop(Pace(execution_qps=0))
    for _ in range(7):
        world.advance(minutes=1)
        world.resync()
        runner.run_pass()
        eventually(lambda: runner.run_pass().live == 0)
    trigger = api.get(T).json()
    assert (trigger["active"], trigger["status"]["deactivated_reason"]) == (False, "failures")
    assert "exited with code 3" in trigger["status"]["last_error"]
    assert "no such customer" in trigger["status"]["last_error"]
    assert len(api.get("/runs").json()["items"]) == 5
    assert api.actions() == ["DEPLOY", "DEACTIVATE"]
