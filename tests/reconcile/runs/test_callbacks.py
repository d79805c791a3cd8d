"""Runs of the `http` launcher from claim to end: a runner, a service on a real socket, and its callbacks."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reconcile import plugins
from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.observations.observation import Observation, Observations, RunObservation
from reconcile.observations.runs import AttemptEnded, LaunchTried
from reconcile.runs.attempt import Ended
from reconcile.runs.attempt_secrets import Vault
from reconcile.runs.runner import Runner, RunnerSettings
from reconcile.runs.settle import complete_run, record_heartbeat
from revisions.clock import HandClock
from revisions.errors import Conflict, NotFound
from revisions.history.triggers import Trigger
from revisions.store import claims, logs, run_orders, runs, triggers
from revisions.store.database import Database
from revisions.store.runs import Run
from tests.contract.service import Service
from tests.rows import Rows
from tests.waiting import eventually

LEASE = timedelta(seconds=60)
SECOND = timedelta(seconds=1)
DONE = Ended(AttemptOutcome.SUCCEEDED, output={"cost": 2})
BROKEN = Ended(AttemptOutcome.FAILED, "out of paper", {"state": 1})


class Scene:
    """A trigger whose task is a service, and runners of any number of machines."""

    def __init__(self, database: Database, clock: HandClock, folder: Path, service: Service) -> None:
        self.database, self.clock, self.folder, self.service = database, clock, folder, service
        self.rows = Rows(database)
        self.observations = Observations()
        self.seen: list[Observation] = []
        self.observations.subscribe(self.seen.append)
        self.runners: list[Runner] = []

    def trigger(self, task: str, **spec: Any) -> Trigger:
        self.rows.task(launcher="http", http={"url": f"{self.service.url}/{task}"}, timeout="10m")
        return self.rows.trigger(**spec)

    def accepting(self, **spec: Any) -> tuple[Trigger, dict[str, Any]]:
        """Return a trigger, and the values of a run that the service accepts for later."""
        return self.trigger("say", **spec), {"input": '{"status":202,"body":"queued"}'}

    def runner(self, machine: str = "here") -> Runner:
        settings = RunnerSettings(self.folder / machine, self.folder, lease=LEASE, url="http://here")
        runner = Runner(self.database, self.observations, plugins.launchers(), settings=settings)
        self.runners.append(runner)
        return runner

    def accepted(self, runner: Runner, trigger: Trigger, **values: Any) -> str:
        """Create a run, start it, and return its id once the service accepted it."""
        run_id = self.rows.run(trigger, **values)
        self.claim(runner, run_id)
        return run_id

    def claim(self, runner: Runner, run_id: str) -> None:
        """Claim the run with one pass, and wait until the service answered its request."""
        runner.run_pass()
        run = self.run(run_id)
        assert run.status == "running"
        eventually(lambda: list(self.folder.glob(f"*/{run_id}-{run.attempt}/accepted")))

    def complete(self, run_id: str, attempt: int, ended: Ended) -> Run:
        work_dir = self.folder / "here"
        return complete_run(self.database, self.observations, run_id, attempt, ended, vault=Vault(), work_dir=work_dir)

    def heartbeat(self, run_id: str, attempt: int) -> Run:
        return record_heartbeat(self.database, self.observations, run_id, attempt, lease=LEASE)

    def run(self, run_id: str) -> Run:
        with self.database.read() as connection:
            found = runs.get(connection, run_id)
        assert found is not None
        return found

    def log(self, run_id: str, attempt: int = 1) -> bytes:
        with self.database.read() as connection:
            return logs.read(connection, run_id, attempt).head

    def sync(self, runner: Runner) -> None:
        """Run a pass after a second, so that it reads the claims' state from the database."""
        self.clock.advance(2 * SECOND)
        runner.run_pass()

    def names(self, run_id: str) -> list[str]:
        return [
            observation.name
            for observation in self.seen
            if isinstance(observation, RunObservation)
            and observation.run.id == run_id
            and not isinstance(observation, LaunchTried | AttemptEnded)
        ]


@pytest.fixture
def scene(database: Database, clock: HandClock, tmp_path: Path) -> Iterator[Scene]:
    with Service() as service:
        scene = Scene(database, clock, tmp_path, service)
        yield scene
        for runner in scene.runners:
            runner.stop(timedelta(0))


def test_the_answer_of_a_service_ends_the_run(scene: Scene) -> None:
    """X-10: the service got the document and the attempt's key; its answer is the output."""
    trigger = scene.trigger("say")
    run_id = scene.rows.run(trigger, input='{"body":"{\\"a\\":1}"}')
    runner = scene.runner()
    runner.run_pass()
    eventually(lambda: runner.run_pass().settled)
    run = scene.run(run_id)
    assert (run.status, run.output) == ("succeeded", '{"a":1}')
    assert scene.log(run_id) == b'HTTP/1.1 200 OK\n{"a":1}\n'
    assert scene.service.keys == [f"{run_id}/1"]
    assert scene.service.seen[0].headers["triggerctl-callback"] == f"http://here/api/v1/runs/{run_id}/complete"


def test_a_callback_settles_the_run_and_the_runner_drops_the_attempt(scene: Scene) -> None:
    """X-10: the end is stored when `complete` returns; nothing is settled twice, and no claim counts as lost."""
    trigger, values = scene.accepting()
    runner = scene.runner()
    run_id = scene.accepted(runner, trigger, **values)
    run = scene.complete(run_id, 1, DONE)
    assert run == scene.run(run_id)
    assert (run.status, run.output, run.cost, run.claimed_by) == ("succeeded", '{"cost":2}', 2.0, None)
    assert runner.live == 1
    scene.sync(runner)
    assert runner.live == 0
    assert scene.run(run_id) == run
    assert scene.names(run_id) == ["run.started", "run.settled", "run.completed", "attempt.over"]
    assert scene.log(run_id) == b"HTTP/1.1 202 Accepted\nqueued\n"
    assert {path.name for path in (scene.folder / "here").iterdir()} == {"instances", "installation"}


def test_a_log_that_is_stored_already_is_not_stored_again(scene: Scene) -> None:
    """X-17: output that the runner stored before the callback is there once."""
    trigger, values = scene.accepting()
    runner = scene.runner()
    run_id = scene.accepted(runner, trigger, **values)
    scene.sync(runner)
    assert scene.log(run_id) == b"HTTP/1.1 202 Accepted\nqueued\n"
    scene.complete(run_id, 1, DONE)
    scene.sync(runner)
    assert scene.log(run_id) == b"HTTP/1.1 202 Accepted\nqueued\n"


def test_a_callback_may_come_before_the_answer(scene: Scene) -> None:
    """X-10: the service calls back before it answers the request; its answer changes nothing then."""
    trigger = scene.trigger("wait")
    go, begun = scene.folder / "go", scene.folder / "begun"
    run_id = scene.rows.run(trigger, input=f'{{"runs":"{begun}","go":"{go}"}}')
    runner = scene.runner()
    runner.run_pass()
    eventually(begun.exists)
    scene.complete(run_id, 1, DONE)
    go.touch()
    eventually(lambda: runner.run_pass().live == 0)
    assert (scene.run(run_id).status, scene.run(run_id).output) == ("succeeded", '{"cost":2}')
    assert scene.names(run_id) == ["run.started", "run.settled", "run.completed", "attempt.over"]
    assert scene.log(run_id) == b'HTTP/1.1 200 OK\n{"waited": true}\n'


def test_a_reported_failure_is_retried_under_another_key(scene: Scene) -> None:
    """X-07: by the run's own policy; later callbacks of the first attempt change nothing and are recorded (X-05)."""
    trigger, values = scene.accepting()
    runner = scene.runner()
    run_id = scene.accepted(runner, trigger, **values)
    run = scene.complete(run_id, 1, BROKEN)
    assert (run.status, run.error, run.output) == ("pending", "out of paper", '{"state":1}')
    with pytest.raises(Conflict, match=r"attempt 1 .* the run is pending in attempt 1"):
        scene.complete(run_id, 1, DONE)
    scene.sync(runner)
    scene.claim(runner, run_id)
    assert scene.service.keys == [f"{run_id}/1", f"{run_id}/2"]
    before = scene.run(run_id)
    with pytest.raises(Conflict, match=r"attempt 1 .* the run is running in attempt 2"):
        scene.complete(run_id, 1, DONE)
    assert scene.names(run_id)[-1] == "claim.lost"
    with pytest.raises(Conflict, match="attempt 1"):
        scene.heartbeat(run_id, 1)
    assert scene.names(run_id)[-2:] == ["claim.lost", "claim.lost"]
    assert scene.run(run_id) == before
    assert scene.complete(run_id, 2, DONE).status == "succeeded"


def test_a_repeated_callback_is_refused_with_the_runs_status(scene: Scene) -> None:
    """X-05: also when the answer to the first was lost; the run stays as it ended."""
    trigger, values = scene.accepting()
    run_id = scene.accepted(scene.runner(), trigger, **values)
    run = scene.complete(run_id, 1, DONE)
    with pytest.raises(Conflict, match="the run is succeeded in attempt 1"):
        scene.complete(run_id, 1, BROKEN)
    assert scene.run(run_id) == run


def test_a_callback_counts_whichever_runner_holds_the_claim(scene: Scene) -> None:
    """X-05, X-10: the claim on the attempt changes when the controller restarts."""
    trigger, values = scene.accepting()
    run_id = scene.accepted(scene.runner(), trigger, **values)
    with scene.database.write() as connection:
        claims.take_over(connection, [scene.run(run_id)], scene.clock.now(), claimed_by="other", lease=LEASE)
    assert scene.complete(run_id, 1, DONE).status == "succeeded"


def test_a_runner_that_stops_leaves_accepted_work_to_the_next(scene: Scene) -> None:
    """X-07, X-10: no request is sent twice, the log goes on, and the callback ends the run."""
    trigger, values = scene.accepting()
    first = scene.runner()
    run_id = scene.accepted(first, trigger, **values)
    first.stop(timedelta(0))
    assert (scene.run(run_id).status, scene.names(run_id)[-1]) == ("running", "run.left")
    following = scene.runner()
    assert following.run_pass().adopted == 1
    assert (scene.run(run_id).attempt, scene.run(run_id).claim) == (1, 2)
    assert scene.service.keys == [f"{run_id}/1"]
    assert scene.complete(run_id, 1, DONE).status == "succeeded"
    scene.sync(following)
    assert following.live == 0
    assert scene.log(run_id) == b"HTTP/1.1 202 Accepted\nqueued\n"


def test_a_callback_while_no_runner_works_is_stored(scene: Scene) -> None:
    """X-10: the next runner adopts nothing, and removes what the attempt left."""
    trigger, values = scene.accepting()
    first = scene.runner()
    run_id = scene.accepted(first, trigger, **values)
    first.stop(timedelta(0))
    scene.complete(run_id, 1, DONE)
    assert scene.runner().run_pass().adopted == 0
    assert {path.name for path in (scene.folder / "here").iterdir()} == {"instances", "installation"}


def test_a_request_under_way_is_handed_back_under_the_same_key(scene: Scene) -> None:
    """X-07: a runner that stops uses no attempt; a service that knows the key does nothing twice."""
    trigger = scene.trigger("sleep")
    ready = scene.folder / "ready"
    run_id = scene.rows.run(trigger, input=f'{{"ready":"{ready}"}}')
    first = scene.runner()
    first.run_pass()
    eventually(ready.exists)
    first.stop(timedelta(0))
    assert (scene.run(run_id).status, scene.run(run_id).attempt) == ("pending", 0)
    eventually(scene.service.hung_up.is_set)
    scene.runner().run_pass()
    eventually(lambda: scene.service.keys == [f"{run_id}/1", f"{run_id}/1"])


def test_a_service_that_never_calls_back_times_out(scene: Scene) -> None:
    """X-05: the runner enforces the attempt's timeout, and keeps the lease until then."""
    trigger, values = scene.accepting()
    runner = scene.runner()
    run_id = scene.accepted(runner, trigger, max_attempts=1, **values)
    for _ in range(31):
        scene.clock.advance(20 * SECOND)
        runner.run_pass()
    run = scene.run(run_id)
    assert (run.status, run.error) == ("timed_out", "timed out: the service had accepted and had not called back")


def test_a_heartbeat_prolongs_the_lease_within_the_timeout(scene: Scene) -> None:
    """X-05: also while no runner renews it; after the timeout the run can be taken over."""
    trigger, values = scene.accepting()
    run_id = scene.accepted(scene.runner(), trigger, **values)
    began = scene.clock.now()
    scene.clock.advance(50 * SECOND)
    assert scene.heartbeat(run_id, 1).cancel_requested_at is None
    assert scene.run(run_id).lease_until == began + 50 * SECOND + LEASE
    with scene.database.write() as connection:
        run_orders.request_cancel(connection, run_id, scene.clock.now(), "ann")
    assert scene.heartbeat(run_id, 1).cancel_requested_at == scene.clock.now()
    scene.clock.advance(timedelta(minutes=10))
    scene.heartbeat(run_id, 1)
    assert scene.run(run_id).lease_until == began + 50 * SECOND + LEASE


def test_a_reported_failure_at_the_limit_deactivates_the_trigger(scene: Scene) -> None:
    """X-07: as any other failure does."""
    trigger, values = scene.accepting(deactivate_after=1)
    run_id = scene.accepted(scene.runner(), trigger, max_attempts=1, **values)
    assert scene.complete(run_id, 1, BROKEN).status == "failed"
    with scene.database.read() as connection:
        found = triggers.by_id(connection, trigger.trigger_id)
    assert found is not None
    assert (found.active, found.revision) == (False, 2)


def test_an_unknown_run_is_not_found(scene: Scene) -> None:
    """R-18: neither callback creates one."""
    unknown = "01KJ0000000000000000000000"
    with pytest.raises(NotFound):
        scene.complete(unknown, 1, DONE)
    with pytest.raises(NotFound):
        scene.heartbeat(unknown, 1)
