"""Runs in another system, from claim to end: a runner, a database, and a Kubernetes API on a real socket."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reconcile import plugins
from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.observations.observation import Observations
from reconcile.runs.attempt import Ended
from reconcile.runs.attempt_secrets import Vault
from reconcile.runs.runner import Runner, RunnerSettings
from reconcile.runs.settle import complete_run
from revisions.clock import HandClock
from revisions.history.triggers import Trigger
from revisions.store import logs, runs, states
from revisions.store.database import Database
from revisions.store.runs import Run
from tests.contract.cluster import Cluster
from tests.rows import Rows
from tests.waiting import eventually

LEASE = timedelta(seconds=60)
ANSWER = "import os; open(os.environ['TRIGGERCTL_OUTPUT'], 'w').write('{\"cost\": 2, \"state\": {\"cursor\": 7}}')"
UNTIL = "import os, sys, time\nprint('up', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.002)"


CONTROLLER = """
import sys, time
from pathlib import Path
from reconcile import plugins
from reconcile.runs.runner import Runner, RunnerSettings
from reconcile.observations.observation import Observations
from revisions.store.database import Database
url, folder = sys.argv[1:]
settings = RunnerSettings(Path(folder, "there"), Path(folder))
runner = Runner(Database(url), Observations(), plugins.launchers(), settings=settings)
while True:
    runner.run_pass()
    time.sleep(0.01)
"""


class Scene:
    """A trigger whose task runs as a Job, and runners of any number of machines."""

    def __init__(self, database: Database, clock: HandClock, folder: Path, cluster: Cluster) -> None:
        self.database, self.clock, self.folder, self.cluster = database, clock, folder, cluster
        self.rows = Rows(database)
        self.observations = Observations()
        self.runners: list[Runner] = []

    def trigger(self, code: str, *arguments: str) -> Trigger:
        block = {"image": "python:3.12-alpine", "command": ["python", "-S", "-c", code, *arguments]}
        self.rows.task(launcher="kubernetes", kubernetes=block, timeout="10m")
        return self.rows.trigger()

    def runner(self, machine: str = "here") -> Runner:
        settings = RunnerSettings(self.folder / machine, self.folder, lease=LEASE)
        runner = Runner(self.database, self.observations, plugins.launchers(), settings=settings)
        self.runners.append(runner)
        return runner

    def running(self, runner: Runner, **values: Any) -> str:
        """Create a run and start it; return its id once its pod runs, which ends when the file `go` exists."""
        run_id = self.rows.run(self.trigger(UNTIL, str(self.folder / "go")), **values)
        runner.run_pass()
        eventually(lambda: (log := self.folder / "here" / f"{run_id}-1" / "log").exists() and log.stat().st_size)
        return run_id

    def settled(self, runner: Runner, run_id: str) -> Run:
        eventually(lambda: runner.run_pass().settled)
        return self.run(run_id)

    def run(self, run_id: str) -> Run:
        with self.database.read() as connection:
            found = runs.get(connection, run_id)
        assert found is not None
        return found


@pytest.fixture
def scene(database: Database, clock: HandClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    with Cluster() as cluster:
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(tmp_path)))
        scene = Scene(database, clock, tmp_path, cluster)
        yield scene
        for runner in scene.runners:
            runner.stop(timedelta(0))


def test_the_output_of_a_pod_settles_its_run(scene: Scene) -> None:
    """X-06, X-10: with its cost, and its state for the next run."""
    trigger = scene.trigger(ANSWER)
    run_id = scene.rows.run(trigger)
    runner = scene.runner()
    runner.run_pass()
    run = scene.settled(runner, run_id)
    assert (run.status, run.cost) == ("succeeded", 2.0)
    with scene.database.read() as connection:
        state = states.get(connection, trigger.trigger_id)
    assert state is not None
    assert state.state == '{"cursor":7}'


def test_a_runner_that_stops_leaves_its_job_to_the_next(scene: Scene) -> None:
    """X-07, X-10: one Job from beginning to end, one log, one attempt."""
    first = scene.runner()
    run_id = scene.running(first)
    first.stop(timedelta(0))
    assert scene.run(run_id).status == "running"
    following = scene.runner()
    assert following.run_pass().adopted == 1
    [job] = scene.cluster.jobs
    (scene.folder / "go").touch()
    run = scene.settled(following, run_id)
    assert (run.status, run.attempt) == ("succeeded", 1)
    assert job == f"triggerctl-{run_id.lower()}-1"
    with scene.database.read() as connection:
        assert logs.read(connection, run_id, 1).head == b"up\n"


def test_a_runner_on_another_machine_finds_the_job_by_its_name(scene: Scene, database_url: str) -> None:
    """X-05, X-10: once the lease lapsed, although the first machine's disk is gone."""
    run_id = scene.rows.run(scene.trigger(UNTIL, str(scene.folder / "go")))
    arguments = [sys.executable, "-c", CONTROLLER, database_url, str(scene.folder)]
    with subprocess.Popen(arguments, cwd=Path(plugins.__file__).parents[1]) as controller, ExitStack() as stack:
        stack.callback(controller.kill)  # also when an assertion fails: nothing else ends it
        eventually(lambda: scene.cluster.pods)
    running = scene.run(run_id)
    assert running.lease_until is not None
    with scene.database.read() as connection:
        scene.clock.advance(running.lease_until - scene.clock.now(connection) + timedelta(seconds=1))
    other = scene.runner()
    assert other.run_pass().adopted == 1
    (scene.folder / "go").touch()
    run = scene.settled(other, run_id)
    assert (run.status, run.attempt) == ("succeeded", 1)
    assert scene.cluster.created == 1
    with scene.database.read() as connection:
        assert logs.read(connection, run_id, 1).head == b"up\n"


def test_a_timeout_ends_the_job(scene: Scene) -> None:
    """X-05, X-10: the run has timed out when the cluster has ended its Job."""
    runner = scene.runner()
    run_id = scene.running(runner, max_attempts=1)
    scene.clock.advance(timedelta(minutes=11))
    run = scene.settled(runner, run_id)
    assert (run.status, run.error) == ("timed_out", "timed out: its Job was deleted")
    assert not scene.cluster.jobs


def test_a_callback_from_a_pod_ends_its_run(scene: Scene) -> None:
    """X-10: for an output that does not fit into a termination message; the Job is removed too."""
    runner = scene.runner()
    run_id = scene.running(runner)
    ended = Ended(AttemptOutcome.SUCCEEDED, output={"rows": 7})
    run = complete_run(
        scene.database, scene.observations, run_id, 1, ended, vault=Vault(), work_dir=scene.folder / "here"
    )
    assert run.status == "succeeded"
    scene.clock.advance(timedelta(seconds=2))
    runner.run_pass()
    assert runner.live == 0
    eventually(lambda: not scene.cluster.jobs)
    assert scene.run(run_id).output == '{"rows":7}'
