"""Adoption: a runner with real child processes is killed at any point, and the next one goes on from there."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from reconcile import plugins
from reconcile.launchers.shared import attempt_folder
from reconcile.observations.observation import Observations
from reconcile.runs.runner import Runner, RunnerSettings
from reconcile.runs.workspace import Workspace
from revisions.errors import Conflict
from revisions.store import logs, runs
from revisions.store.database import Database
from revisions.store.runs import Run
from tests.rows import Rows
from tests.waiting import PATIENCE, eventually

TASK = """
import json, os, sys, time
with open("runs.txt", "a") as file:
    file.write("run\\n")
print("begun", flush=True)
while not os.path.exists("go"):
    time.sleep(0.01)
with open(os.environ["TRIGGERCTL_OUTPUT"], "w") as file:
    json.dump({"attempt": json.load(sys.stdin)["run"]["attempt"]}, file)
"""

LEAK = """
import json, os, sys, time
key = json.load(sys.stdin)["secrets"]["KEY"]
while not os.path.exists("go"):
    time.sleep(0.01)
with open(os.environ["TRIGGERCTL_OUTPUT"], "w") as file:
    json.dump({"key": key}, file)
sys.exit(f"no s3: {key}")
"""

FLOOD = """
import json, os, sys, time
key = json.load(sys.stdin)["secrets"]["KEY"]
print(f".{key}" * 2**21, end="", flush=True)
while not os.path.exists("go"):
    time.sleep(0.01)
"""

RUNNER = """
import os, signal, sys, time
from pathlib import Path
from reconcile import plugins
from reconcile.runs.runner import Runner, RunnerSettings
from reconcile.observations.observation import Observations
from revisions.store.database import Database

url, folder, point = sys.argv[1:]

def die(reached):
    if reached == point:
        os.kill(os.getpid(), signal.SIGKILL)

class Process:
    def read(self, written):
        return plugins.launcher("process").read(written)
    def start(self, launch):
        die("before start")
        work = plugins.launcher("process").start(launch)
        die("after start")
        return work
    def adopt(self, folder):
        return plugins.launcher("process").adopt(folder)

observations = Observations()
observations.subscribe(lambda observation: die(observation.name))
settings = RunnerSettings(Path(folder, "work"), Path(folder))
runner = Runner(Database(url), observations, {"process": Process()}, settings=settings)
while True:
    runner.run_pass()
    time.sleep(0.01)
"""


class Scene:
    """A task that waits for a file, a runner in a process of its own, and a runner in the test."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.database = Database(url)
        self.rows = Rows(self.database)
        (folder / "task.py").write_text(TASK)
        self.rows.task(launcher="process", process={"command": [sys.executable, "-S", "task.py"], "cwd": "."})
        self.trigger = self.rows.trigger()
        self.observations = Observations()
        self.seen: list[str] = []
        self.observations.subscribe(lambda observation: self.seen.append(observation.name))

    def killed_runner(self, point: str, **variables: str) -> "subprocess.Popen[bytes]":
        root = Path(plugins.__file__).parents[1]
        command = [sys.executable, "-c", RUNNER, self.url, str(self.folder), point]
        return subprocess.Popen(command, cwd=root, env=os.environ | variables)

    def runner(self) -> Runner:
        settings = RunnerSettings(self.folder / "work", self.folder)
        return Runner(self.database, self.observations, plugins.launchers(), settings=settings)

    def run(self, run_id: str) -> Run:
        with self.database.read() as connection:
            found = runs.get(connection, run_id)
        assert found is not None
        return found

    def go(self) -> None:
        (self.folder / "go").touch()

    @property
    def starts(self) -> list[str]:
        path = self.folder / "runs.txt"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def scene(database_url: str, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(database_url, tmp_path)
    with scene.database:
        yield scene
    scene.go()  # a task that a failed test left would wait for ever


@pytest.mark.parametrize("point", ["run.claimed", "before start", "after start", "run.started", "run.settled"])
def test_a_run_starts_once_wherever_its_runner_is_killed(scene: Scene, point: str) -> None:
    """Invariant 5, X-07: after `kill -9` the next runner ends the run in its first attempt."""
    run_id = scene.rows.run(scene.trigger)
    process = scene.killed_runner(point)
    if point == "run.settled":
        eventually(lambda: scene.starts)
        scene.go()
    assert process.wait(PATIENCE) == -signal.SIGKILL
    runner = scene.runner()
    runner.start()
    eventually(lambda: scene.starts)
    scene.go()
    run = eventually(lambda: run if (run := scene.run(run_id)).finished_at else None)
    runner.stop(timedelta(seconds=5))
    assert (run.status, run.attempt, run.output) == ("succeeded", 1, '{"attempt":1}')
    assert scene.starts == ["run"]
    assert ("run.adopted" in scene.seen) == (point in ("after start", "run.started"))
    assert {path.name for path in (scene.folder / "work").iterdir()} == {"instances", "installation"}
    assert list((scene.folder / "work" / "instances").iterdir()) == []


def test_an_adopted_run_keeps_its_log(scene: Scene) -> None:
    """X-05, X-17: its work goes on under a new claim number, and its output is stored once."""
    run_id = scene.rows.run(scene.trigger)
    scene.killed_runner("run.started").wait(PATIENCE)
    runner = scene.runner()
    assert runner.run_pass().adopted == 1
    assert (scene.run(run_id).claim, scene.run(run_id).attempt) == (2, 1)
    eventually(lambda: scene.starts)
    scene.go()
    eventually(lambda: runner.run_pass().settled)
    with scene.database.read() as connection:
        assert logs.read(connection, run_id, 1).head == b"begun\n"
    runner.stop(timedelta(0))


def test_the_middle_of_an_adopted_attempts_log_is_given_back(scene: Scene) -> None:
    """X-17, X-05: head and tail are stored byte by byte, with secrets across their ends hidden."""
    (scene.folder / "flood.py").write_text(FLOOD)
    command = [sys.executable, "-S", "flood.py"]
    task = scene.rows.task("flood", launcher="process", process={"command": command, "cwd": "."}, secrets=["KEY"])
    run_id = scene.rows.run(scene.rows.trigger("flooding", task.name))
    scene.killed_runner("run.started", TRIGGERCTL_SECRET__KEY="s3cr3t").wait(PATIENCE)
    log = scene.folder / "work" / f"{run_id}-1" / "log"
    eventually(lambda: log.exists() and log.stat().st_size == 7 * 2**21)
    runner = scene.runner()
    runner.run_pass()
    runner.run_pass()
    assert log.stat().st_blocks * 512 <= logs.HEAD + logs.TAIL + 4 * 4096
    scene.go()
    eventually(lambda: runner.run_pass().settled)
    runner.stop(timedelta(0))
    with scene.database.read() as connection:
        text = logs.read(connection, run_id, 1)
    hidden = (b"." + b"*" * 6) * 2**21
    assert (text.head, text.dropped, text.tail) == (hidden[: logs.HEAD], 13 * 2**20, hidden[-logs.TAIL :])


def test_secrets_of_an_adopted_attempt_are_hidden(scene: Scene) -> None:
    """X-12: in its log, error and output, though only the runner that was killed had looked the value up."""
    (scene.folder / "leak.py").write_text(LEAK)
    command = [sys.executable, "-S", "leak.py"]
    task = scene.rows.task("leak", launcher="process", process={"command": command, "cwd": "."}, secrets=["KEY"])
    run_id = scene.rows.run(scene.rows.trigger("leaking", task.name), max_attempts=1)
    scene.killed_runner("run.started", TRIGGERCTL_SECRET__KEY="s3cr3t-value").wait(PATIENCE)
    runner = scene.runner()
    assert runner.run_pass().adopted == 1
    scene.go()
    eventually(lambda: runner.run_pass().settled)
    run = scene.run(run_id)
    assert (run.error, run.output) == ("exited with code 1: no s3: ***", '{"key":"***"}')
    with scene.database.read() as connection:
        assert logs.read(connection, run_id, 1).head == b"no s3: ************\n"
    runner.stop(timedelta(0))
    assert {path.name for path in (scene.folder / "work").iterdir()} == {"instances", "installation"}


@pytest.mark.parametrize("point", ["before start", "run.settled"])
def test_the_secrets_of_an_attempt_are_removed_with_it(scene: Scene, point: str) -> None:
    """X-12, invariant 5: `kill -9` before the start, and between the end and the removal of its files."""
    (scene.folder / "leak.py").write_text(LEAK)
    command = [sys.executable, "-S", "leak.py"]
    task = scene.rows.task("leak", launcher="process", process={"command": command, "cwd": "."}, secrets=["KEY"])
    scene.rows.run(scene.rows.trigger("leaking", task.name), max_attempts=1)
    scene.go()
    scene.killed_runner(point, TRIGGERCTL_SECRET__KEY="s3cr3t-value").wait(PATIENCE)
    assert list((scene.folder / "work").glob("*.secrets"))
    runner = scene.runner()
    eventually(lambda: runner.run_pass().live == 0)
    runner.stop(timedelta(0))
    assert {path.name for path in (scene.folder / "work").iterdir()} == {"instances", "installation"}


@pytest.mark.parametrize("kind", ["link", "file"])
def test_whatever_stands_in_the_place_of_an_attempts_folder_is_removed(scene: Scene, kind: str) -> None:
    """Invariant 5, X-12: a task may have put it there; the target of a link is left alone."""
    run_id = scene.rows.run(scene.trigger, parked=True)
    other, attempt_folder = scene.folder / "other", scene.folder / "work" / f"{run_id}-1"
    (other / "below").mkdir(parents=True)
    attempt_folder.parent.mkdir()
    if kind == "link":
        attempt_folder.symlink_to(other)
    else:
        attempt_folder.touch()
    runner = scene.runner()
    runner.run_pass()
    assert not os.path.lexists(attempt_folder)
    assert [path.name for path in other.iterdir()] == ["below"]
    runner.stop(timedelta(0))


def test_attempts_of_a_live_runner_are_not_adopted(scene: Scene) -> None:
    """X-05: by a second runner on the same machine."""
    run_id = scene.rows.run(scene.trigger)
    first, second = scene.runner(), scene.runner()
    assert first.run_pass().claimed == 1
    assert second.run_pass().adopted == 0
    eventually(lambda: scene.starts)
    scene.go()
    eventually(lambda: first.run_pass().settled)
    second.stop(timedelta(0))
    first.stop(timedelta(0))
    assert (scene.run(run_id).status, scene.starts) == ("succeeded", ["run"])


def test_stopping_ends_a_real_child_and_hands_its_run_back(scene: Scene) -> None:
    """X-07: the run is pending again, and the next runner begins the attempt anew."""
    run_id = scene.rows.run(scene.trigger)
    runner = scene.runner()
    runner.start()
    eventually(lambda: scene.starts)
    runner.stop(timedelta(0))
    assert (scene.run(run_id).status, scene.run(run_id).attempt) == ("pending", 0)
    scene.go()
    following = scene.runner()
    following.start()
    eventually(lambda: scene.run(run_id).status == "succeeded")
    following.stop(timedelta(seconds=5))
    assert (scene.run(run_id).attempt, scene.starts) == (1, ["run", "run"])


def test_a_workspace_knows_dead_workers_by_their_locks(tmp_path: Path) -> None:
    """X-05: a worker that was never here does not count as dead."""
    here, other = Workspace(tmp_path, "A", "I"), Workspace(tmp_path, "B", "I")
    here.occupy()
    other.occupy()
    assert (here.dead(), here.is_shared(), here.is_dead("C"), here.is_dead(None)) == ([], True, False, False)
    here.remove(["B"])
    assert other.is_shared()
    other.leave(holds_claims=True)
    assert (here.dead(), here.is_shared(), here.is_dead("B")) == (["B"], False, True)
    here.remove(["B"])
    assert (here.dead(), here.is_dead("B")) == ([], False)
    assert attempt_folder.is_locked(tmp_path / "instances" / "A.lock")
    here.leave(holds_claims=False)
    assert list((tmp_path / "instances").iterdir()) == []


def test_a_workspace_of_another_installation_is_refused(tmp_path: Path) -> None:
    """X-10: in a copy of a disk the attempts belong to the original, where they go on."""
    Workspace(tmp_path, "A", "theirs").occupy()
    attempt = tmp_path / f"{'0' * 26}-1"
    attempt.mkdir()
    with pytest.raises(Conflict, match="attempts of another installation, theirs; this one is ours: give it"):
        Workspace(tmp_path, "B", "ours").occupy()
    assert attempt.exists()
    attempt.rmdir()
    Workspace(tmp_path, "B", "ours").occupy()
    assert (tmp_path / "installation").read_text() == "ours"
