"""Passes of a runner, run by hand: claims, launches, leases and ends; stalls, lost claims and shutdown."""

import errno
import json
from datetime import timedelta
from pathlib import Path
from threading import Condition
from typing import Any, NoReturn

import pytest

from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.decide.authority import Caller
from reconcile.launchers.process import launcher as process
from reconcile.observations.observation import Observation, Observations
from reconcile.observations.runs import (
    AttemptEnded,
    AttemptOver,
    LeaseRenewed,
    LogUnbounded,
    RunExpired,
    RunRetried,
    RunSettled,
    RunStarted,
)
from reconcile.plugins import Launch, LaunchError, Lost, WorkProgress
from reconcile.runs.attempt import Ended
from reconcile.runs.runner import Runner, RunnerSettings
from reconcile.runs.settle import settle
from reconcile.triggers import holds
from revisions.clock import HandClock
from revisions.errors import Unavailable
from revisions.history.triggers import StopReason
from revisions.store import claims, counts, installations, logs, run_orders, runs, status, triggers
from revisions.store.database import Database
from revisions.store.runs import Run
from tests.observing import only
from tests.reconcile.scripted import ScriptedLauncher, ScriptedWork
from tests.reconcile.unreliable import UnreliableDatabase
from tests.rows import Rows
from tests.waiting import eventually

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


class Scene:
    """A trigger, and runners of any number of machines over a database whose connection can be cut."""

    def __init__(self, database: Database, clock: HandClock, folder: Path) -> None:
        self.database = UnreliableDatabase(database)
        self.clock = clock
        self.folder = folder
        self.rows = Rows(database)
        self.rows.task(timeout="2h")
        self.trigger = self.rows.trigger(schedule={"every": "1h", "kickoff_time_input": "at"})
        self.launcher = ScriptedLauncher()
        self.observations = Observations()
        self.seen: list[Observation] = []
        self.observations.subscribe(self.seen.append)

    def runner(self, machine: str = "here", **settings: Any) -> Runner:
        return Runner(
            self.database,
            self.observations,
            {"scripted": self.launcher},
            settings=RunnerSettings(self.folder / machine, self.folder, **settings),
        )

    def stopped_for(self) -> str | None:
        """Return the reason for which the system deactivated the trigger, None while it is active."""
        with self.database.read() as connection:
            trigger = triggers.by_id(connection, self.trigger.trigger_id)
        assert trigger is not None
        return trigger.stopped_for

    def started(self, runner: Runner, **values: Any) -> tuple[str, ScriptedWork]:
        """Create a run and start it with one pass; return its id and its work."""
        run_id = self.rows.run(self.trigger, **values)
        assert runner.run_pass().claimed == 1
        return run_id, self.launcher.last

    def run(self, run_id: str) -> Run:
        with self.database.read() as connection:
            found = runs.get(connection, run_id)
        assert found is not None
        return found

    def cancel(self, run_id: str) -> None:
        with self.database.write() as connection:
            run_orders.request_cancel(connection, run_id, self.clock.now(), "ann")

    def advance(self, by: timedelta, *runners: Runner, step: timedelta = 10 * SECOND) -> None:
        """Advance the clock in steps, with a pass of each runner after each step."""
        for _ in range(int(by / step)):
            self.clock.advance(step)
            for runner in runners:
                runner.run_pass()

    def names(self) -> list[str]:
        return [observation.name for observation in self.seen]

    def observed_ends(self) -> list[str]:
        """Return the statuses of the observed ends of runs."""
        return [observation.status for observation in only(RunSettled, self.seen)]


@pytest.fixture
def scene(database: Database, clock: HandClock, tmp_path: Path) -> Scene:
    return Scene(database, clock, tmp_path)


def test_a_pending_run_is_claimed_launched_and_settled(scene: Scene) -> None:
    """X-04, X-06: and nothing of the attempt is left behind."""
    runner = scene.runner()
    run_id, work = scene.started(runner)
    run = scene.run(run_id)
    assert (run.status, run.attempt, run.claim, run.lease_until) == ("running", 1, 1, scene.clock.now() + MINUTE)
    assert runner.run_pass().live == 1
    work.log.data = b"done\n"
    work.succeed(answer=42)
    report = runner.run_pass()
    assert (report.settled, report.live) == (1, 0)
    run = scene.run(run_id)
    assert (run.status, run.output, run.claimed_by) == ("succeeded", '{"answer":42}', None)
    assert work.forgotten


def test_a_launch_carries_the_installations_id(scene: Scene) -> None:
    """X-10: work in another system is recognised by it."""
    with scene.database.read() as connection:
        installation = installations.current(connection)
    _, work = scene.started(scene.runner())
    assert work.launch.installation == installation


def test_observations_of_a_run_carry_its_triggers_name(scene: Scene) -> None:
    """O-05: beside the ids, because people read the log."""
    runner = scene.runner()
    run_id, work = scene.started(runner)
    work.succeed()
    runner.run_pass()
    facts = [observed.facts() for observed in scene.seen if isinstance(observed, RunStarted | RunSettled)]
    expected = (scene.trigger.key, scene.trigger.trigger_id, run_id)
    assert [(fact["trigger"], fact["trigger_id"], fact["run_id"]) for fact in facts] == [expected] * 2
    assert scene.names() == ["run.claimed", "launch.tried", "run.started", "attempt.ended", "run.settled"]
    assert runner.run_pass().claimed == 0


def test_the_task_gets_the_document_and_the_environment_of_the_contract(scene: Scene) -> None:
    """X-03: with the scheduled time also as the input that `kickoff_time_input` names."""
    runner = scene.runner(url="http://localhost:8080")
    run_id, work = scene.started(runner, input='{"region":"emea"}', scheduled_at=scene.clock.now() - SECOND)
    assert work.launch.input == {
        "run": {
            "id": run_id,
            "project": "acme",
            "domain": "production",
            "task": "report",
            "task_version": "v1",
            "trigger": "acme/production/report/morning",
            "revision": 1,
            "source": "schedule",
            "attempt": 1,
            "scheduled_at": "2026-03-02T07:59:59Z",
        },
        "input": {"region": "emea", "at": "2026-03-02T07:59:59Z"},
        "state": None,
        "last_success_at": None,
        "now": "2026-03-02T08:00:00Z",
        "is_first_run": True,
        "event": None,
        "secrets": {},
        "untrusted": False,
        "allow_destructive": False,
    }
    assert work.launch.environment == {"TRIGGERCTL_RUN_ID": run_id, "TRIGGERCTL_URL": "http://localhost:8080"}
    assert (work.launch.run_id, work.launch.attempt, work.launch.block) == (run_id, 1, {})
    assert work.launch.folder == scene.folder / "here" / f"{run_id}-1"
    work.succeed()
    runner.run_pass()
    _, work = scene.started(runner)
    assert work.launch.input["is_first_run"] is False
    assert work.launch.input["last_success_at"] == "2026-03-02T08:00:00Z"


def test_without_a_url_the_variable_is_left_out(scene: Scene) -> None:
    """X-03: TRIGGERCTL_URL is never empty."""
    _, work = scene.started(scene.runner())
    assert work.launch.environment.keys() == {"TRIGGERCTL_RUN_ID"}


def test_a_failed_attempt_is_retried_after_its_backoff(scene: Scene) -> None:
    """X-07: after 2, then 4 seconds; then the run has failed, and the trigger's status keeps the error."""
    runner = scene.runner()
    run_id, work = scene.started(runner)
    for attempt, seconds in ((1, 2), (2, 4)):
        work.fail(f"broken {attempt}")
        runner.run_pass()
        run = scene.run(run_id)
        assert (run.status, run.attempt, run.error) == ("pending", attempt, f"broken {attempt}")
        assert run.available_at == scene.clock.now() + seconds * SECOND
        scene.clock.advance((seconds - 1) * SECOND)
        assert runner.run_pass().claimed == 0
        scene.clock.advance(SECOND)
        assert runner.run_pass().claimed == 1
        work = scene.launcher.last
        assert work.launch.input["run"]["attempt"] == attempt + 1
    work.fail("broken 3")
    runner.run_pass()
    assert (scene.run(run_id).status, scene.run(run_id).error) == ("failed", "broken 3")
    with scene.database.read() as connection:
        row = status.get(connection, scene.trigger.trigger_id)
    assert row is not None
    assert (row.consecutive_failures, row.last_error) == (1, "broken 3")


def test_five_failed_runs_deactivate_the_trigger(scene: Scene) -> None:
    """X-07: with the reason, as soon as the limit is reached."""
    runner = scene.runner()
    for _ in range(5):
        assert scene.stopped_for() is None
        _, work = scene.started(runner, max_attempts=1)
        work.fail()
        runner.run_pass()
    assert scene.stopped_for() == StopReason.FAILURES


def test_a_deactivation_that_fails_does_not_stop_the_runner(scene: Scene) -> None:
    """L-16: it is observed, and the scanner deactivates the trigger later."""
    scene.trigger = scene.rows.redeploy(scene.trigger, deactivate_after=1)
    runner = scene.runner()
    _, work = scene.started(runner, max_attempts=1)
    work.fail()
    with scene.database.away_after(RunSettled, scene.observations), pytest.raises(Unavailable):
        runner.run_pass()
    assert (scene.names()[-1], scene.stopped_for()) == ("deactivation.failed", None)


def test_a_run_that_cannot_be_launched_fails_alone(scene: Scene) -> None:
    """X-10, L-13: with the reason, for a launcher that refuses or raises, a missing task and an unknown launcher."""
    runner = scene.runner()
    for error, message in ((LaunchError("no such command"), "no such command"), (KeyError("x"), "KeyError('x')")):
        with scene.launcher.refusing(error):
            run_id = scene.rows.run(scene.trigger, max_attempts=1)
            assert runner.run_pass().live == 0
        assert scene.run(run_id).status == "failed"
        assert message in (scene.run(run_id).error or "")
    run_id = scene.rows.run(scene.trigger, max_attempts=1, task_version="v9")
    runner.run_pass()
    assert scene.run(run_id).error == "there is no task report in version v9"
    scene.rows.task(version="v2", launcher="celery", celery={})
    run_id = scene.rows.run(scene.trigger, max_attempts=1, task_version="v2")
    runner.run_pass()
    assert scene.run(run_id).error == "no launcher 'celery'; there are scripted"


def test_a_block_that_its_launcher_cannot_read_fails_the_run(scene: Scene) -> None:
    """X-10: an older release may have stored it; the error names the fault's path."""
    scene.launcher.reader = process
    run_id = scene.rows.run(scene.trigger, max_attempts=1)
    assert scene.runner().run_pass().live == 0
    assert scene.run(run_id).error == "scripted.command: is missing"


def test_max_running_limits_all_runners_and_capacity_each_one(scene: Scene) -> None:
    """X-04: the global limit and the runner's own."""
    for _ in range(5):
        scene.rows.run(scene.trigger)
    here, there = scene.runner(max_running=4, capacity=3), scene.runner("there", max_running=4, capacity=3)
    assert here.run_pass().claimed == 3
    assert there.run_pass().claimed == 1
    assert there.run_pass().claimed == 0
    scene.launcher.works[0].succeed()
    report = here.run_pass()
    assert (report.settled, report.claimed, report.live) == (1, 1, 3)


def test_a_long_run_keeps_its_claim(scene: Scene) -> None:
    """X-05: for 25 minutes under a lease of 60 s, while another runner looks for lapsed claims."""
    here, there = scene.runner(), scene.runner("there")
    run_id, work = scene.started(here)
    there.run_pass()
    scene.advance(25 * MINUTE, here, there)
    run = scene.run(run_id)
    assert (run.status, run.claim, run.attempt) == ("running", 1, 1)
    assert run.lease_until is not None
    assert run.lease_until > scene.clock.now() + 30 * SECOND
    work.succeed()
    here.run_pass()
    assert scene.run(run_id).status == "succeeded"
    assert "run.lost" not in scene.names()


def test_leases_are_renewed_after_a_third_of_their_time(scene: Scene) -> None:
    """X-05: and not at every pass."""
    runner = scene.runner()
    scene.started(runner)
    scene.advance(2 * MINUTE, runner, step=SECOND)
    assert scene.names().count("lease.renewed") in (6, 7)


def test_a_run_of_a_dead_runner_is_lost_and_uses_an_attempt(scene: Scene) -> None:
    """X-05, X-07: nobody renews the lease; once it lapsed, another runner makes the next attempt."""
    dead, there = scene.runner(), scene.runner("there")
    run_id, _ = scene.started(dead)
    scene.advance(59 * SECOND, there, step=SECOND)
    assert scene.run(run_id).status == "running"
    scene.advance(SECOND, there, step=SECOND)
    run = scene.run(run_id)
    assert (run.status, run.attempt, run.error) == ("pending", 1, "its worker stopped renewing the lease")
    assert "run.lost" in scene.names()
    scene.advance(2 * SECOND, there, step=SECOND)
    run = scene.run(run_id)
    assert (run.status, run.attempt) == ("running", 2)


def test_a_runner_that_stalled_ends_its_work_and_changes_nothing(scene: Scene) -> None:
    """X-05: after two minutes its claims are lost; it finds out by renewing one and by settling the other."""
    stalled, there = scene.runner(), scene.runner("there")
    running, running_work = scene.started(stalled)
    ended, ended_work = scene.started(stalled)
    scene.advance(2 * MINUTE, there)
    ended_work.succeed()
    before = [scene.run(running), scene.run(ended)]
    assert [run.attempt for run in before] == [2, 2]
    stalled.run_pass()
    assert stalled.live == 0
    assert running_work.cancelled == [True]
    assert running_work.forgotten
    assert ended_work.forgotten
    assert [scene.run(running), scene.run(ended)] == before
    assert scene.names().count("claim.lost") == 2


def test_the_log_of_a_lost_claim_is_not_stored(scene: Scene) -> None:
    """X-05: the attempt's log belongs to the runner that took the run over."""
    stalled = scene.runner()
    run_id, work = scene.started(stalled)
    with scene.database.write() as connection:
        claims.take_over(connection, [scene.run(run_id)], scene.clock.now(), claimed_by="other", lease=MINUTE)
    work.log.data = b"late"
    scene.clock.advance(2 * SECOND)
    stalled.run_pass()
    assert stalled.live == 0
    with scene.database.read() as connection:
        assert logs.sizes(connection, [(run_id, 1)]) == {}


def test_a_runner_may_claim_a_run_that_it_lost(scene: Scene) -> None:
    """X-05: the old claim's work is ended and the new one's goes on, though both belong to one run."""
    runner, there = scene.runner(), scene.runner("there", capacity=0)
    run_id, old = scene.started(runner)
    scene.advance(MINUTE, there)
    scene.clock.advance(2 * SECOND)
    runner.run_pass()
    new = scene.launcher.last
    assert (old.cancelled, new.cancelled, new.launch.attempt) == ([True], [], 2)
    new.succeed()
    runner.run_pass()
    assert scene.run(run_id).status == "succeeded"


def test_pending_and_running_runs_are_cancelled(scene: Scene) -> None:
    """X-11: a pending run never starts, the work of a running one is asked to end, and no attempt follows."""
    runner = scene.runner(max_running=1)
    running, work = scene.started(runner)
    pending = scene.rows.run(scene.trigger)
    scene.cancel(pending)
    scene.cancel(running)
    scene.clock.advance(SECOND)
    runner.run_pass()
    assert work.cancelled == [False]
    runner.run_pass()
    assert [scene.run(run_id).status for run_id in (running, pending)] == ["cancelled", "cancelled"]
    assert scene.run(running).error == "cancelled: killed"
    assert len(scene.launcher.works) == 1


def test_work_is_asked_to_end_at_its_timeout_and_forced_ten_seconds_later(scene: Scene) -> None:
    """X-05, X-07: the lease is renewed until the work has ended."""
    scene.rows.task(version="v2", timeout="90s")
    runner = scene.runner()
    run_id, work = scene.started(runner, task_version="v2", max_attempts=1)
    work.stubborn = True
    scene.advance(89 * SECOND, runner, step=SECOND)
    assert work.cancelled == []
    scene.advance(SECOND, runner, step=SECOND)
    assert work.cancelled == [False]
    scene.advance(9 * SECOND, runner, step=SECOND)
    assert work.cancelled == [False]
    assert scene.run(run_id).status == "running"
    scene.advance(SECOND, runner, step=SECOND)
    assert work.cancelled == [False, True]
    runner.run_pass()
    assert (scene.run(run_id).status, scene.run(run_id).error) == ("timed_out", "timed out: killed")


def test_the_log_is_stored_while_it_grows_and_at_the_end(scene: Scene) -> None:
    """X-17: within a second, for `--follow`; of 2 MiB only head and tail."""
    runner = scene.runner()
    run_id, work = scene.started(runner)
    whole = bytes(range(256)) * 8192
    work.log.data = b"begun\n"
    scene.advance(SECOND, runner, step=SECOND)
    with scene.database.read() as connection:
        assert logs.read(connection, run_id, 1).head == b"begun\n"
    work.log.data += whole
    scene.advance(SECOND, runner, step=SECOND)
    with scene.database.read() as connection:
        assert logs.read(connection, run_id, 1).head == work.log.data[: 6 + 256 * 1024]
    work.fail()
    runner.run_pass()
    with scene.database.read() as connection:
        text = logs.read(connection, run_id, 1)
    printed = work.log.data
    assert text == logs.LogText(printed[: logs.HEAD], len(printed) - logs.HEAD - logs.TAIL, printed[-logs.TAIL :])


def test_an_end_whose_commit_was_not_confirmed_is_observed_once(scene: Scene) -> None:
    """O-02, X-06: the next pass sees that it was committed, emits its observations, and writes nothing twice."""
    runner = scene.runner()
    run_id, work = scene.started(runner)
    work.log.data = b"done\n"
    work.succeed(cost=2)
    with scene.database.losing_commit("succeeded"), pytest.raises(Unavailable):
        runner.run_pass()
    ended_at = scene.run(run_id).finished_at
    scene.clock.advance(SECOND)
    assert runner.run_pass().settled == 1
    assert runner.run_pass().live == 0
    assert (scene.observed_ends(), only(AttemptOver, scene.seen)) == (["succeeded"], [])
    assert [ended.at for ended in only(AttemptEnded, scene.seen)] == [ended_at]
    assert (scene.run(run_id).finished_at, scene.run(run_id).cost) == (ended_at, 2)


def test_a_retry_whose_commit_was_not_confirmed_is_observed_once(scene: Scene) -> None:
    """O-02, X-07: and the run is made pending once."""
    runner = scene.runner()
    run_id, work = scene.started(runner, max_attempts=2)
    work.fail()
    with scene.database.losing_commit("pending"), pytest.raises(Unavailable):
        runner.run_pass()
    assert runner.run_pass().settled == 1
    assert [retried.error for retried in only(RunRetried, scene.seen)] == ["broken"]
    assert only(AttemptOver, scene.seen) == []
    assert (scene.run(run_id).status, scene.run(run_id).attempt) == ("pending", 1)


def test_a_launch_failure_whose_commit_was_not_confirmed_is_observed_once(scene: Scene) -> None:
    """O-02, X-08, L-16: no attempt is polled for it; its trigger is still deactivated."""
    runner = scene.runner()
    with scene.launcher.refusing():
        for _ in range(4):
            scene.rows.run(scene.trigger, max_attempts=1)
            runner.run_pass()
        scene.seen.clear()
        scene.rows.run(scene.trigger, max_attempts=1)
        with scene.database.losing_commit("failed"), pytest.raises(Unavailable):
            runner.run_pass()
        assert runner.run_pass().settled == 1
    assert scene.observed_ends() == ["failed"]
    assert scene.stopped_for() == StopReason.FAILURES


def test_an_end_that_was_not_committed_is_not_observed(scene: Scene) -> None:
    """O-02, X-05: somebody else settled the run meanwhile and emits its observations."""
    runner = scene.runner()
    run_id, work = scene.started(runner)
    work.succeed()
    with scene.database.away(), pytest.raises(Unavailable):
        runner.run_pass()
    settle(scene.database, Observations(), scene.run(run_id), Ended(AttemptOutcome.SUCCEEDED))
    scene.clock.advance(SECOND)
    assert runner.run_pass().settled == 0
    assert (scene.observed_ends(), len(only(AttemptOver, scene.seen))) == ([], 1)


def test_the_middle_of_a_long_log_is_given_back(scene: Scene) -> None:
    """X-17: also while the database is away, and without changing a byte of head and tail."""
    runner = scene.runner()
    run_id, work = scene.started(runner)
    printed = bytes(range(256)) * 4096
    with scene.database.away():
        for _ in range(4):
            work.log.data += printed
            with pytest.raises(Unavailable):
                runner.run_pass()
    assert work.log.dropped == (logs.HEAD, 3 * len(printed) + logs.TAIL)
    work.succeed()
    runner.run_pass()
    with scene.database.read() as connection:
        text = logs.read(connection, run_id, 1)
    assert text == logs.LogText(printed[: logs.HEAD], 3 * len(printed), printed[-logs.TAIL :])


def test_a_log_whose_middle_cannot_be_given_back_is_observed_once(scene: Scene) -> None:
    """X-17, X-10: the work goes on, and head and tail are stored."""
    runner = scene.runner()
    run_id, work = scene.started(runner)
    work.log.refuses_to_drop = OSError(errno.ENOTSUP, "Operation not supported")
    for _ in range(3):
        work.log.data += bytes(3 * logs.HEAD)
        runner.run_pass()
    assert [unbounded.error for unbounded in only(LogUnbounded, scene.seen)] == ["[Errno 95] Operation not supported"]
    work.succeed()
    runner.run_pass()
    assert scene.run(run_id).status == "succeeded"


def test_lost_work_is_tried_again(scene: Scene) -> None:
    """X-07: work that was killed together with its supervisor uses an attempt."""
    runner = scene.runner()
    run_id, work = scene.started(runner)
    work.progress = Lost("gone")
    runner.run_pass()
    assert (scene.run(run_id).status, scene.run(run_id).error, scene.run(run_id).attempt) == ("pending", "gone", 1)


def test_work_goes_on_while_the_database_is_away(scene: Scene) -> None:
    """X-05: after ten minutes the first runner to come back does not take the other's claims over."""
    here, there = scene.runner(), scene.runner("there")
    goes_on, _ = scene.started(here)
    ends, work = scene.started(here)
    there.run_pass()
    with scene.database.away():
        work.succeed(answer=1)
        for _ in range(10):
            scene.clock.advance(MINUTE)
            for runner in (there, here):
                with pytest.raises(Unavailable):
                    runner.run_pass()
        assert not work.forgotten
    there.run_pass()
    assert here.run_pass().settled == 1
    there.run_pass()
    assert scene.run(ends).output == '{"answer":1}'
    run = scene.run(goes_on)
    assert (run.status, run.claim, run.lease_until) == ("running", 1, scene.clock.now() + MINUTE)


def test_a_clock_that_is_set_ahead_costs_no_claim(scene: Scene) -> None:
    """L-12: leases that lapsed by that alone are spared for one lease; those of dead runners are taken over then."""
    here, there = scene.runner(), scene.runner("there")
    run_id, _ = scene.started(here)
    there.run_pass()
    scene.clock.step(timedelta(hours=1))
    scene.clock.advance(SECOND)
    there.run_pass()
    assert (scene.run(run_id).status, scene.run(run_id).claim) == ("running", 1)
    scene.advance(MINUTE, there)
    assert scene.run(run_id).attempt == 1
    assert "run.lost" in scene.names()


def test_a_claim_whose_commit_was_not_confirmed_is_handed_back(scene: Scene) -> None:
    """Invariant 5: the run starts at the next pass, and no attempt is used."""
    runner = scene.runner()
    runner.run_pass()
    run_id = scene.rows.run(scene.trigger)
    with scene.database.losing_commit("running"), pytest.raises(Unavailable):
        runner.run_pass()
    assert scene.run(run_id).status == "running"
    assert runner.run_pass().claimed == 1
    run = scene.run(run_id)
    assert (run.status, run.attempt, len(scene.launcher.works)) == ("running", 1, 1)


def test_an_end_that_cannot_be_stored_does_not_hold_up_others(scene: Scene) -> None:
    """L-13: the other end is stored; this one is tried again 30 seconds later."""
    runner = scene.runner()
    unstorable, bad = scene.started(runner)
    other, good = scene.started(runner)
    bad.succeed(answer=object())
    good.succeed()
    runner.run_pass()
    assert (scene.run(other).status, scene.run(unstorable).status) == ("succeeded", "running")
    assert scene.names().count("settle.failed") == 1
    bad.succeed(answer=1)
    scene.advance(30 * SECOND, runner)
    assert scene.run(unstorable).status == "succeeded"


class Unreadable(ScriptedWork):
    """Work whose every method raises; `calls` are the names of the methods that were called."""

    def __init__(self, launch: Launch) -> None:
        super().__init__(launch)
        self.calls: list[str] = []

    def poll(self) -> WorkProgress:
        return self._refuse("poll")

    def cancel(self, *, force: bool = False) -> None:
        self._refuse("cancel by force" if force else "cancel")

    def forget(self) -> None:
        self._refuse("forget")

    def _refuse(self, call: str) -> NoReturn:
        self.calls.append(call)
        raise KeyError(call)


def test_work_that_cannot_be_read_does_not_hold_up_others(scene: Scene) -> None:
    """X-05, X-10: other runs go on; its own timeout ends it by force, and then it is given up."""
    scene.rows.task(version="v2", timeout="90s")
    runner = scene.runner()
    with scene.launcher.starting(Unreadable):
        broken, work = scene.started(runner, task_version="v2", max_attempts=1)
    other, good = scene.started(runner)
    scene.advance(89 * SECOND, runner, step=SECOND)
    good.succeed()
    runner.run_pass()
    assert (scene.run(other).status, scene.run(broken).status) == ("succeeded", "running")
    assert isinstance(work, Unreadable)
    assert "cancel" not in work.calls
    scene.advance(21 * SECOND, runner, step=SECOND)
    assert [name for name in work.calls if name.startswith("cancel")][:2] == ["cancel", "cancel by force"]
    run = scene.run(broken)
    assert (run.status, run.error) == ("timed_out", "timed out: its progress cannot be read: KeyError('poll')")
    assert runner.run_pass().live == 0
    assert set(scene.names()) >= {"work.unreadable", "attempt.left_behind"}
    assert "runner.failed" not in scene.names()


def test_a_run_whose_launcher_raises_can_be_cancelled(scene: Scene) -> None:
    """X-11: ten seconds after the forced end the run counts as cancelled."""
    runner = scene.runner()
    with scene.launcher.starting(Unreadable):
        broken, _ = scene.started(runner)
    scene.cancel(broken)
    scene.advance(22 * SECOND, runner, step=SECOND)
    assert scene.run(broken).status == "cancelled"


def test_stopping_hands_back_runs_that_do_not_end_in_time(scene: Scene) -> None:
    """X-07: a hand-back on SIGTERM uses no attempt; the next runner begins the attempt anew."""
    runner = scene.runner()
    run_id, work = scene.started(runner, max_attempts=1)
    work.log.data = b"half"
    scene.advance(SECOND, runner, step=SECOND)
    waiting = scene.rows.run(scene.trigger)
    runner.stop(timedelta(0))
    assert work.cancelled == [False]
    assert work.forgotten
    run = scene.run(run_id)
    assert (run.status, run.attempt, run.available_at) == ("pending", 0, scene.clock.now())
    assert scene.run(waiting).status == "pending"
    assert list((scene.folder / "here" / "instances").iterdir()) == []
    following = scene.runner()
    assert following.run_pass().claimed == 2
    scene.launcher.works[-1].succeed()
    scene.launcher.works[-2].succeed()
    following.run_pass()
    run = scene.run(run_id)
    assert (run.status, run.attempt) == ("succeeded", 1)


def test_stopping_does_not_wait_once_all_runs_are_handed_back(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-07: `stop` returns after the pass that handed the last run back."""
    runner = scene.runner()
    run_id, _ = scene.started(runner)
    live_while_waiting: list[int] = []
    monkeypatch.setattr(Condition, "wait", lambda *_: live_while_waiting.append(runner.live))
    runner.stop(timedelta(0))
    assert scene.run(run_id).status == "pending"
    assert all(live_while_waiting)


def test_stopping_lets_work_end_within_the_grace_period(scene: Scene) -> None:
    """X-07: it is settled as it ended, and no run is claimed meanwhile."""
    runner = scene.runner()
    run_id, work = scene.started(runner)
    waiting = scene.rows.run(scene.trigger)
    scene.observations.subscribe(lambda observation: work.succeed() if isinstance(observation, LeaseRenewed) else None)
    scene.clock.advance(20 * SECOND)
    runner.stop(timedelta(seconds=5))
    assert work.cancelled == []
    assert (scene.run(run_id).status, scene.run(waiting).status) == ("succeeded", "pending")


def test_the_thread_survives_a_database_failure(scene: Scene) -> None:
    """L-16: it backs off, and goes on when the database is back."""
    runner = scene.runner()
    with scene.database.away():
        runner.start()
        eventually(lambda: scene.names().count("runner.unavailable") >= 3)
    run_id = scene.rows.run(scene.trigger)
    eventually(lambda: scene.launcher.works)[0].succeed()
    eventually(lambda: scene.run(run_id).status == "succeeded")
    runner.stop(timedelta(0))


def test_a_task_spec_that_cannot_be_read_fails_its_run_alone(scene: Scene) -> None:
    """L-13: also a spec that is stored already."""
    scene.rows.task(version="v2", timeout="soon")
    runner = scene.runner()
    run_id = scene.rows.run(scene.trigger, task_version="v2", max_attempts=1)
    runner.run_pass()
    assert "could not be launched" in (scene.run(run_id).error or "")
    assert json.loads(scene.run(run_id).input) == {}


def test_a_run_reads_the_state_that_the_previous_one_returned(scene: Scene) -> None:
    """X-03, X-06: so does the next attempt of the same run."""
    runner = scene.runner()
    _, work = scene.started(runner)
    assert work.launch.input["state"] is None
    work.succeed(state={"cursor": 1})
    runner.run_pass()
    _, work = scene.started(runner)
    assert work.launch.input["state"] == {"cursor": 1}
    work.fail(state={"cursor": 2})
    runner.run_pass()
    scene.clock.advance(2 * SECOND)
    assert runner.run_pass().claimed == 1
    assert scene.launcher.last.launch.input["state"] == {"cursor": 2}
    scene.launcher.last.succeed()
    runner.run_pass()
    _, work = scene.started(runner)
    assert work.launch.input["state"] == {"cursor": 2}


def test_a_run_that_waited_too_long_expires(scene: Scene) -> None:
    """X-18: at its `start_by` it still starts, later it never does; the end is observed, and is no failure."""
    runner = scene.runner(max_running=1)
    _, work = scene.started(runner)
    by = scene.clock.now() + MINUTE
    early, late = (scene.rows.run(scene.trigger, start_by=at) for at in (by, by - SECOND))
    scene.clock.advance(MINUTE)
    work.succeed()
    runner.run_pass()
    assert scene.run(early).status == "running"
    expired = scene.run(late)
    assert (expired.status, expired.finished_at, expired.attempt, expired.started_at) == ("expired", by, 0, None)
    assert len(scene.launcher.works) == 2
    [observed] = only(RunExpired, scene.seen)
    trigger = {"trigger": scene.trigger.key, "trigger_id": scene.trigger.trigger_id}
    assert observed.facts() == {**trigger, "run_id": late, "attempt": 0, "source": "schedule"}
    with scene.database.read() as connection:
        row = status.get(connection, scene.trigger.trigger_id)
        assert counts.count_installation(connection, scene.clock).live == {"running": 1}
    assert row is not None
    assert row.consecutive_failures == 0


def test_a_run_expires_while_no_run_can_start(scene: Scene) -> None:
    """X-18: while all places are taken, and under a freeze."""
    runner = scene.runner(capacity=1)
    scene.started(runner)
    waiting = scene.rows.run(scene.trigger, start_by=scene.clock.now() + 5 * SECOND)
    scene.advance(10 * SECOND, runner)
    assert scene.run(waiting).status == "expired"
    holds.freeze(scene.database, scene.observations, None, None, Caller("ann", "stocktaking"))
    frozen = scene.rows.run(scene.trigger, start_by=scene.clock.now() + 5 * SECOND)
    scene.advance(10 * SECOND, runner)
    assert scene.run(frozen).status == "expired"


def test_a_run_that_started_in_time_never_expires(scene: Scene) -> None:
    """X-18: neither between two attempts nor after a stopping runner handed it back."""
    runner = scene.runner()
    retried, work = scene.started(runner, start_by=scene.clock.now() + SECOND)
    work.fail()
    runner.run_pass()
    scene.clock.advance(2 * SECOND)
    assert runner.run_pass().claimed == 1
    given_back = scene.rows.run(scene.trigger, start_by=scene.clock.now() + SECOND)
    assert runner.run_pass().claimed == 1
    runner.stop(timedelta(0))
    scene.clock.advance(MINUTE)
    assert (scene.run(given_back).status, scene.run(given_back).attempt) == ("pending", 0)
    assert scene.runner("there").run_pass().claimed == 2
    assert {scene.run(run_id).status for run_id in (retried, given_back)} == {"running"}
