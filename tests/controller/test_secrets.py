"""Secrets of tasks: their sources, the runs that get them, and masking wherever something is stored or logged."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from controller.telemetry import logs
from reconcile.decide.authority import Caller, Sharing
from reconcile.decide.preconditions import Expected
from reconcile.plugins import SecretPlaces, launchers
from reconcile.runs.attempt_secrets import Vault
from reconcile.runs.runner import Runner, RunnerSettings
from reconcile.triggers.deploy import rollback_trigger
from revisions.errors import Invalid
from revisions.spec.task import TaskManifest
from revisions.spec.trigger import TriggerManifest
from revisions.store.columns import metadata
from revisions.store.database import Database
from revisions.store.runs import Run
from tests.contract.service import Service
from tests.controller.asking import IS_NEW, Api, T, manifest
from tests.waiting import eventually
from tests.world import World, key, task_document, trigger_document

KEY = "s3cr3t-Zürich-value"

TASK = """
import json, os, subprocess, sys, time
from pathlib import Path
seen = json.load(sys.stdin)
key = seen["secrets"]["GA_TOKEN"]
folder = Path(__file__).parent
visible = " ".join(sys.argv) + json.dumps(dict(os.environ)) + Path("/proc/self/cmdline").read_text()
(folder / "key_and_leak").write_text(json.dumps([key, key in visible]))
json.dump({"state": {"cursor": key}, "echo": seen, key: [key]}, open(os.environ["TRIGGERCTL_OUTPUT"], "w"))
half = len(key) // 2
print("begin", key[:half], end="", flush=True)
(folder / "half").touch()
while not (folder / "go").exists():
    time.sleep(0.002)
print(key[half:], json.dumps(key), flush=True)
sys.exit(f"cannot log in with {key}")
"""


class Scene:
    """Runners of one machine, and a folder of secrets."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.secrets = folder / "secrets"
        (folder / "task.py").write_text(TASK)

    def put(self, path: str, value: str = KEY) -> None:
        (self.secrets / path).parent.mkdir(parents=True, exist_ok=True)
        (self.secrets / path).write_text(value)

    def runner(self, **vault: Any) -> Runner:
        settings = RunnerSettings(
            self.folder / "work", self.folder, vault=Vault(places=SecretPlaces(self.secrets), **vault)
        )
        world = self.world
        return Runner(world.database, world.observations, launchers(), settings=settings)

    def run(self, runner: Runner) -> Run:
        """Fire a run now, wait until it has ended, and return it."""
        self.world.advance(minutes=1)
        self.world.resync()
        runner.run_pass()
        eventually(lambda: runner.run_pass().live == 0)
        return self.world.runs()[-1]

    def task(self, *names: str, **spec: Any) -> None:
        spec = {"process": {"command": [sys.executable, "-S", "task.py"], "cwd": "."}, "secrets": list(names)} | spec
        self.world.register("v2", **spec)


@pytest.fixture
def scene(api: Api, world: World, tmp_path: Path) -> Scene:
    return Scene(world, tmp_path)


def stored_text(database: Database, api: Api) -> str:
    """Return every row of every table, and the API's answers about the trigger and its runs."""
    parts: list[str] = []
    with database.read() as connection:
        for table in metadata.sorted_tables:
            for row in connection.execute(select(table)):
                parts += [value.decode() if isinstance(value, bytes) else str(value) for value in row]
    paths = [T, f"{T}/revisions", f"{T}/state", f"{T}/occurrences", f"{T}/explain", "/runs", "/tasks"]
    for run in api.get("/runs").json()["items"]:
        paths += [f"/runs/{run['id']}", f"/runs/{run['id']}/logs"]
    for path in paths:
        answer = api.get(path)
        assert answer.status_code == 200, path
        parts.append(answer.text)
    return "\n".join(parts)


@pytest.fixture
def full_logging(capsys: pytest.CaptureFixture[str]) -> None:
    """Log everything, from all libraries, to standard error."""
    logs.configure("debug", "json")


def has_no_secret(text: str) -> bool:
    return not any(form in text for form in (KEY, json.dumps(KEY)[1:-1], KEY[:12]))


def test_a_secret_is_passed_to_the_task_and_stored_nowhere(
    scene: Scene, api: Api, database: Database, full_logging: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """X-12: only in the task document; not in tables, logs, errors, answers, command lines or environments.

    The task prints it in two halves, returns it, keeps it as state and fails with it, while everything is logged.
    """
    scene.put("client-7/GA_TOKEN")
    scene.task("GA_TOKEN")
    api.create(task_version="v2", secret_scope="client-7", retry={"max_attempts": 1})
    scene.world.observations.subscribe(logs.write)
    runner = scene.runner()
    scene.world.advance(minutes=1)
    scene.world.resync()
    runner.run_pass()
    eventually(lambda: (scene.folder / "half").exists())
    scene.world.advance(seconds=1)
    runner.run_pass()  # stores the first half
    (scene.folder / "go").touch()
    eventually(lambda: runner.run_pass().live == 0)
    [run] = scene.world.runs()
    logged = capsys.readouterr().err
    assert json.loads((scene.folder / "key_and_leak").read_text()) == [KEY, False]
    assert (run.status, run.error) == ("failed", "exited with code 1: cannot log in with ***")
    assert json.loads(run.output or "")["echo"]["secrets"] == {"GA_TOKEN": "***"}
    assert "run.settled" in logged
    stars = "*" * len(KEY.encode())
    log = api.get(f"/runs/{run.id}/logs").text
    assert log.startswith(f'begin {stars} "{"*" * (len(json.dumps(KEY)) - 2)}"\ncannot log in with {stars}')
    assert api.get(f"{T}/state").json()["state"] == {"cursor": "***"}
    for text in (stored_text(database, api), logged, repr(scene.world.observed)):
        assert has_no_secret(text)
    assert {path.name for path in (scene.folder / "work").iterdir()} == {"instances", "installation"}


def test_a_missing_secret_fails_the_run_without_a_retry(scene: Scene) -> None:
    """X-12: the error names the secret, its scope and the places that were searched."""
    scene.task("GA_TOKEN")
    scene.world.create(task_version="v2", secret_scope="client-7")
    run = scene.run(scene.runner())
    assert (run.status, run.attempt) == ("failed", 1)
    assert run.error == (
        "secret GA_TOKEN (scope client-7) is missing: looked in environment (TRIGGERCTL_SECRET__CLIENT_7__GA_TOKEN), "
        f"files ({scene.secrets}/client-7/GA_TOKEN), environment (TRIGGERCTL_SECRET__GA_TOKEN), "
        f"files ({scene.secrets}/GA_TOKEN)"
    )
    assert not (scene.folder / "key_and_leak").exists()


def test_an_unreadable_source_is_read_again_by_the_next_attempt(scene: Scene) -> None:
    """X-12, X-07: unlike a source without the secret."""
    (scene.secrets / "GA_TOKEN").mkdir(parents=True)
    (scene.secrets / "GA_TOKEN").rmdir()
    (scene.secrets / "GA_TOKEN").write_bytes(b"\xff")
    scene.task("GA_TOKEN")
    scene.world.create(task_version="v2")
    run = scene.run(scene.runner())
    assert (run.status, run.attempt) == ("pending", 1)
    assert run.error == f"secret GA_TOKEN (no scope): files: {scene.secrets}/GA_TOKEN is not UTF-8"


SOURCE_ORDERS: Mapping[str, tuple[dict[str, str], dict[str, str], tuple[str, ...], str]] = {
    "scoped before unscoped": ({"GA_TOKEN": "e"}, {"client-7/GA_TOKEN": "fs"}, ("environment", "files"), "fs"),
    "the first source": ({"GA_TOKEN": "e"}, {"GA_TOKEN": "f"}, ("environment", "files"), "e"),
    "the order reversed": ({"GA_TOKEN": "e"}, {"GA_TOKEN": "f"}, ("files", "environment"), "f"),
    "an empty value counts as missing": ({"GA_TOKEN": ""}, {"GA_TOKEN": "f"}, ("environment", "files"), "f"),
    "only the sources of the settings": ({"CLIENT_7__GA_TOKEN": "es"}, {"GA_TOKEN": "f"}, ("files",), "f"),
}


@pytest.mark.parametrize("case", SOURCE_ORDERS)
def test_sources_are_searched_in_the_order_of_the_settings(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """X-12: `<scope>/<name>` in all sources, then `<name>`."""
    variables, files, sources, expected = SOURCE_ORDERS[case]
    for name, value in variables.items():
        monkeypatch.setenv(f"TRIGGERCTL_SECRET__{name}", value)
    for path, value in files.items():
        scene.put(path, value)
    (scene.folder / "go").touch()
    scene.task("GA_TOKEN")
    scene.world.create(task_version="v2", secret_scope="client-7", retry={"max_attempts": 1})
    scene.run(scene.runner(sources=sources))
    assert json.loads((scene.folder / "key_and_leak").read_text())[0] == expected


def test_secrets_in_a_callback_are_masked(scene: Scene, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-12, X-10: by the API process, which has not launched the attempt."""
    monkeypatch.setenv("TRIGGERCTL_SECRET__GA_TOKEN", KEY)
    with Service() as service:
        block = {"launcher": "http", "http": {"url": f"{service.url}/say"}, "secrets": ["GA_TOKEN"]}
        task = {"spec": block | {"timeout": "1h"}}
        assert api.put("/tasks/acme/production/report/v2", task).status_code == 201
        response = {"status": 202, "body": "queued"}
        answer = api.put(T, manifest(task_version="v2", input=response, retry={"max_attempts": 1}), IS_NEW)
        assert answer.status_code == 201
        runner = scene.runner()
        scene.world.advance(minutes=1)
        scene.world.resync()
        runner.run_pass()
        [run] = scene.world.runs()
        eventually(lambda: list((scene.folder / "work").glob("*/accepted")))
        assert json.loads(service.seen[0].body)["secrets"] == {"GA_TOKEN": KEY}
        callback = {"attempt": 1, "outcome": "failed", "error": f"no {KEY}", "output": {"k": KEY}}
        assert api.post(f"/runs/{run.id}/complete", callback).status_code == 200
        runner.run_pass()
    [run] = scene.world.runs()
    assert (run.status, run.error, run.output) == ("failed", "no ***", '{"k":"***"}')
    assert has_no_secret(stored_text(scene.world.database, api))


SCOPES = {"client-7": ["other"], "client-8": ["acme", "other"]}


def test_a_deploy_with_the_scope_of_another_project_is_refused(scene: Scene) -> None:
    """X-12, R-18: the error names the field and the way out; a rollback is refused too."""
    world = scene.world
    world.create(secret_scope="client-7")
    world.sharing = Sharing(SCOPES)
    with pytest.raises(Invalid, match="the secrets of scope client-7 are not for project acme") as refused:
        world.update("tick", 1, secret_scope="client-7", active=False)
    [fault] = refused.value.errors
    assert fault.path == "spec.secret_scope"
    assert "the setting secret_scopes list acme under client-7" in fault.hint
    world.update("tick", 1, secret_scope="client-8")
    world.update("tick", 2, secret_scope="not-listed")
    with pytest.raises(Invalid, match="client-7"):
        rollback_trigger(
            world.database,
            world.observations,
            key("tick"),
            1,
            Expected(revision=3),
            Caller("ann"),
            sharing=world.sharing,
        )


def test_a_run_gets_no_secrets_of_another_projects_scope(scene: Scene) -> None:
    """X-12: its trigger was deployed before the scope was assigned; the run fails without a retry."""
    scene.put("client-7/GA_TOKEN")
    scene.put("GA_TOKEN")
    scene.task("GA_TOKEN")
    scene.world.create(task_version="v2", secret_scope="client-7")
    run = scene.run(scene.runner(sharing=Sharing(SCOPES)))
    assert (run.status, run.attempt) == ("failed", 1)
    assert run.error == (
        "secret GA_TOKEN (scope client-7): the secrets of scope client-7 are not for project acme; "
        "name a scope of acme's, or have the setting secret_scopes list acme under client-7"
    )
    assert not (scene.folder / "key_and_leak").exists()


def test_a_run_gets_secrets_of_scopes_shared_with_its_project(scene: Scene) -> None:
    """X-12: a scope that lists the project, and a scope that is not listed at all."""
    for scope in ("client-8", "not-listed"):
        scene.put(f"{scope}/GA_TOKEN", f"of {scope}")
    (scene.folder / "go").touch()
    scene.task("GA_TOKEN")
    runner = scene.runner(sharing=Sharing(SCOPES))
    scene.world.create(task_version="v2", secret_scope="client-8", retry={"max_attempts": 1})
    scene.run(runner)
    assert json.loads((scene.folder / "key_and_leak").read_text())[0] == "of client-8"
    scene.world.update("tick", 1, task_version="v2", secret_scope="not-listed", retry={"max_attempts": 1})
    scene.run(runner)
    assert json.loads((scene.folder / "key_and_leak").read_text())[0] == "of not-listed"


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "..", "", "A__B", "_A", "A_", "1A", "A-B", "x" * 129])
def test_an_invalid_secret_name_is_refused(name: str) -> None:
    """X-12: when the task is registered; it could leave the folder, and `__` could be mistaken for a scope."""
    with pytest.raises(Invalid, match=r"spec\.secrets\[0\]"):
        TaskManifest.read(task_document(secrets=[name]))


@pytest.mark.parametrize("scope", ["../client-7", "client/7", "..", ".", "", "Client", "-a", "x" * 64])
def test_an_invalid_secret_scope_is_refused(scope: str) -> None:
    """X-12: when the trigger is deployed."""
    with pytest.raises(Invalid, match=r"spec\.secret_scope"):
        TriggerManifest.read(trigger_document(secret_scope=scope))


def test_a_repeated_secret_name_is_refused() -> None:
    """X-12, R-18: the error says which name."""
    with pytest.raises(Invalid, match=r"spec\.secrets\[1\]: A stands there twice"):
        TaskManifest.read(task_document(secrets=["A", "A"]))
