"""The worker's passes, by hand: claim, launch, lease, settle; what happens when it stalls, loses, stops."""

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Condition
from typing import Any

import pytest
from sqlalchemy import select

from reconcile.decide.retry import AttemptOutcome
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
from reconcile.protocols import Launch, LaunchError, Lost
from reconcile.runs.attempt import Ended
from reconcile.runs.runner import Runner, RunnerSettings
from reconcile.runs.settle import settle
from reconcile.triggers.caller import Caller
from reconcile.triggers.holds import Holds
from revisions.clock import HandClock
from revisions.errors import Conflict, Unavailable
from revisions.history.triggers import StopReason
from revisions.store import claims, counts, installations, logs, run_orders, run_tables, runs, status, triggers
from revisions.store.database import Connection, Database
from revisions.store.runs import Run
from tests.observing import only
from tests.reconcile import scripted
from tests.reconcile.scripted import ScriptedLauncher, ScriptedWork
from tests.rows import Rows
from tests.waiting import eventually

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


class Scene:
    """A database with one trigger, and machines with a runner each."""

    def __init__(self, database: Database, clock: HandClock, folder: Path) -> None:
        self.database = database
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
        """The reason for which the system deactivated the trigger, None while it is active."""
        with self.database.read() as connection:
            trigger = triggers.by_id(connection, self.trigger.trigger_id)
        assert trigger is not None
        return trigger.stopped_for

    def started(self, runner: Runner, **values: Any) -> tuple[str, ScriptedWork]:
        """A run that is under way."""
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
        """Time goes on, with passes as often as `step`."""
        for _ in range(int(by / step)):
            self.clock.advance(step)
            for runner in runners:
                runner.run_pass()

    def names(self) -> list[str]:
        return [observation.name for observation in self.seen]

    @contextmanager
    def answer_lost(self, monkeypatch: pytest.MonkeyPatch, written: str) -> Iterator[None]:
        """The connection dies when the commit is done, once, of a transaction that gives a run this status."""
        real, lost = self.database.write, False

        def count() -> int:
            with self.database.read() as connection:
                found = connection.execute(select(run_tables.runs.c.status)).scalars()
                return list(found).count(written)

        before = count()

        @contextmanager
        def write() -> Iterator[Connection]:
            nonlocal lost
            with real() as connection:
                yield connection
            if count() > before and not lost:
                lost = True
                raise Unavailable("the connection died")

        with monkeypatch.context() as patch:
            patch.setattr(self.database, "write", write)
            yield
        assert lost

    def settled(self) -> list[str]:
        """Statuses with which runs were observed to end."""
        return [observation.status for observation in only(RunSettled, self.seen)]

    @contextmanager
    def database_gone(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        @contextmanager
        def gone() -> Iterator[None]:
            raise Unavailable("gone")
            yield

        with monkeypatch.context() as patch:
            patch.setattr(self.database, "read", gone)
            patch.setattr(self.database, "write", gone)
            yield


@pytest.fixture
def scene(database: Database, clock: HandClock, tmp_path: Path) -> Scene:
    return Scene(database, clock, tmp_path)


def test_a_run_goes_from_pending_to_succeeded(scene: Scene) -> None:
    """X-04, X-06: claimed, launched, settled; nothing of the attempt stays."""
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


def test_an_attempt_bears_the_installations_id(scene: Scene) -> None:
    """X-10: by which its work elsewhere is known."""
    with scene.database.read() as connection:
        mine = installations.current(connection)
    _, work = scene.started(scene.runner())
    assert work.launch.installation == mine


def test_what_is_told_of_a_run_bears_its_triggers_name(scene: Scene) -> None:
    """O-05: beside the ids; a log is read by people."""
    runner = scene.runner()
    run_id, work = scene.started(runner)
    work.succeed()
    runner.run_pass()
    told = [one.facts() for one in scene.seen if isinstance(one, RunStarted | RunSettled)]
    wanted = (scene.trigger.key, scene.trigger.trigger_id, run_id)
    assert {(facts["trigger"], facts["trigger_id"], facts["run_id"]) for facts in told} == {wanted}
    assert len(told) == 2
    assert scene.names() == ["run.claimed", "launch.tried", "run.started", "attempt.ended", "run.settled"]
    assert runner.run_pass().claimed == 0


def test_the_task_sees_what_the_contract_says(scene: Scene) -> None:
    """X-03: the whole document and the environment; the scheduled time also as the named input."""
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


def test_without_a_url_there_is_none(scene: Scene) -> None:
    """X-03: no empty TRIGGERCTL_URL."""
    _, work = scene.started(scene.runner())
    assert work.launch.environment.keys() == {"TRIGGERCTL_RUN_ID"}


def test_a_failed_attempt_is_retried_after_its_backoff(scene: Scene) -> None:
    """X-07: 2, then 4 seconds, then the run has failed; the trigger keeps the last error."""
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
    """X-07: with the reason, once the limit is reached."""
    runner = scene.runner()
    for _ in range(5):
        assert scene.stopped_for() is None
        _, work = scene.started(runner, max_attempts=1)
        work.fail()
        runner.run_pass()
    assert scene.stopped_for() == StopReason.FAILURES


def test_a_deactivation_that_fails_stops_nobody(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-16: the scanner finishes it; the runner goes on."""

    def refuse(*_: Any) -> None:
        raise Conflict("changed")

    monkeypatch.setattr("reconcile.runs.settle.stop_trigger", refuse)
    scene.trigger = scene.rows.redeploy(scene.trigger, deactivate_after=1)
    runner = scene.runner()
    _, work = scene.started(runner, max_attempts=1)
    work.fail()
    assert runner.run_pass().settled == 1
    assert scene.names()[-1] == "deactivation.failed"


def test_what_cannot_be_launched_fails(scene: Scene) -> None:
    """X-10, L-13: a refused launch, a launcher that breaks, a missing task; each fails its own run with the reason."""
    runner = scene.runner()
    for error, words in ((LaunchError("no such command"), "no such command"), (KeyError("x"), "KeyError('x')")):
        with scene.launcher.refusing(error):
            run_id = scene.rows.run(scene.trigger, max_attempts=1)
            assert runner.run_pass().live == 0
        assert scene.run(run_id).status == "failed"
        assert words in (scene.run(run_id).error or "")
    run_id = scene.rows.run(scene.trigger, max_attempts=1, task_version="v9")
    runner.run_pass()
    assert scene.run(run_id).error == "there is no task report in version v9"
    scene.rows.task(version="v2", launcher="celery", celery={})
    run_id = scene.rows.run(scene.trigger, max_attempts=1, task_version="v2")
    runner.run_pass()
    assert scene.run(run_id).error == "no launcher 'celery'; there are scripted"


def test_a_block_that_its_launcher_cannot_read_fails_the_run(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-10: also one that was stored by an older version; the fault is named with its place."""
    monkeypatch.setattr(scene.launcher, "read", process.read)
    run_id = scene.rows.run(scene.trigger, max_attempts=1)
    assert scene.runner().run_pass().live == 0
    assert scene.run(run_id).error == "scripted.command: is missing"


def test_no_more_than_max_running_over_all_workers(scene: Scene) -> None:
    """X-04: the global limit and this worker's own capacity."""
    for _ in range(5):
        scene.rows.run(scene.trigger)
    here, there = scene.runner(max_running=4, capacity=3), scene.runner("there", max_running=4, capacity=3)
    assert here.run_pass().claimed == 3
    assert there.run_pass().claimed == 1
    assert there.run_pass().claimed == 0
    scene.launcher.works[0].succeed()
    report = here.run_pass()
    assert (report.settled, report.claimed, report.live) == (1, 1, 3)


def test_a_long_run_is_renewed_and_not_reaped(scene: Scene) -> None:
    """X-05: 25 minutes alive under a lease of 60 s, with another worker looking for lapsed ones."""
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


def test_leases_are_renewed_every_third_of_their_time(scene: Scene) -> None:
    """X-05: not at every pass."""
    runner = scene.runner()
    scene.started(runner)
    scene.advance(2 * MINUTE, runner, step=SECOND)
    assert scene.names().count("lease.renewed") in (6, 7)


def test_a_dead_workers_run_is_reaped_and_uses_an_attempt(scene: Scene) -> None:
    """X-05, X-07: nobody renews; after the lease another worker gives it its next attempt."""
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


def test_whoever_comes_back_stops_its_work_and_changes_nothing(scene: Scene) -> None:
    """X-05: a worker that stalled for two minutes finds its claim lost, by looking or by settling."""
    stalled, there = scene.runner(), scene.runner("there")
    looked, looked_work = scene.started(stalled)
    settled, settled_work = scene.started(stalled)
    scene.advance(2 * MINUTE, there)
    settled_work.succeed()
    before = [scene.run(looked), scene.run(settled)]
    assert [run.attempt for run in before] == [2, 2]
    stalled.run_pass()
    assert stalled.live == 0
    assert looked_work.cancelled == [True]
    assert looked_work.forgotten
    assert settled_work.forgotten
    assert [scene.run(looked), scene.run(settled)] == before
    assert scene.names().count("claim.lost") == 2


def test_what_a_lost_claim_goes_on_to_print_is_kept_nowhere(scene: Scene) -> None:
    """X-05: the log of the attempt is of whoever took the run over."""
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


def test_a_worker_may_claim_anew_what_it_lost(scene: Scene) -> None:
    """X-05: the old claim's work is stopped, the new one's goes on, though both are of one run."""
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


def test_pending_and_running_are_cancelled(scene: Scene) -> None:
    """X-11: what waits never starts, what runs is asked to end, and no attempt follows."""
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


def test_a_timeout_ends_the_work_by_force_if_need_be(scene: Scene) -> None:
    """X-05, X-07: asked at the timeout, forced ten seconds later, the lease renewed until it is over."""
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
    """X-17: for `--follow` within a second; of 2 MiB head and tail."""
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


def test_an_end_whose_answer_was_lost_is_told_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """O-02, X-06: it was written; who tries again sees that, tells it as settled, and nothing happens twice."""
    runner = scene.runner()
    run_id, work = scene.started(runner)
    work.log.data = b"done\n"
    work.succeed(cost=2)
    with scene.answer_lost(monkeypatch, "succeeded"), pytest.raises(Unavailable):
        runner.run_pass()
    ended_at = scene.run(run_id).finished_at
    scene.clock.advance(SECOND)
    assert runner.run_pass().settled == 1
    assert runner.run_pass().live == 0
    assert (scene.settled(), only(AttemptOver, scene.seen)) == (["succeeded"], [])
    assert [ended.at for ended in only(AttemptEnded, scene.seen)] == [ended_at]
    assert (scene.run(run_id).finished_at, scene.run(run_id).cost) == (ended_at, 2)


def test_a_retry_whose_answer_was_lost_is_told_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """O-02, X-07: the run waits for its next attempt once."""
    runner = scene.runner()
    run_id, work = scene.started(runner, max_attempts=2)
    work.fail()
    with scene.answer_lost(monkeypatch, "pending"), pytest.raises(Unavailable):
        runner.run_pass()
    assert runner.run_pass().settled == 1
    assert [retried.error for retried in only(RunRetried, scene.seen)] == ["broken"]
    assert only(AttemptOver, scene.seen) == []
    assert (scene.run(run_id).status, scene.run(run_id).attempt) == ("pending", 1)


def test_a_run_that_cannot_start_is_told_once_although_the_answer_was_lost(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-02, X-08, L-16: nobody watches it any more; what follows for its trigger is done, too."""
    runner = scene.runner()
    with scene.launcher.refusing():
        for _ in range(4):
            scene.rows.run(scene.trigger, max_attempts=1)
            runner.run_pass()
        scene.seen.clear()
        scene.rows.run(scene.trigger, max_attempts=1)
        with scene.answer_lost(monkeypatch, "failed"), pytest.raises(Unavailable):
            runner.run_pass()
        assert runner.run_pass().settled == 1
    assert scene.settled() == ["failed"]
    assert scene.stopped_for() == StopReason.FAILURES


def test_an_end_that_was_not_written_is_no_end(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """O-02, X-05: somebody else ended the run meanwhile, and tells of it himself."""
    runner = scene.runner()
    run_id, work = scene.started(runner)
    work.succeed()
    with scene.database_gone(monkeypatch), pytest.raises(Unavailable):
        runner.run_pass()
    ours = scene.run(run_id)
    settle(scene.database, Observations(), ours, Ended(AttemptOutcome.SUCCEEDED))
    scene.clock.advance(SECOND)
    assert runner.run_pass().settled == 0
    assert (scene.settled(), len(only(AttemptOver, scene.seen))) == ([], 1)


def test_what_prints_without_end_keeps_its_room_small(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-17: what lies between head and tail is given back, however long the database is away; no byte kept changes."""
    runner = scene.runner()
    run_id, work = scene.started(runner)
    printed = bytes(range(256)) * 4096
    with scene.database_gone(monkeypatch):
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


def test_a_log_whose_room_cannot_be_given_back_is_told_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-17, X-10: the work goes on, and its head and tail are kept."""
    runner = scene.runner()
    run_id, work = scene.started(runner)

    def refuse(start: int, end: int) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(work.log, "drop", refuse)
    for _ in range(3):
        work.log.data += bytes(3 * logs.HEAD)
        runner.run_pass()
    assert [unbounded.error for unbounded in only(LogUnbounded, scene.seen)] == ["[Errno 95] Operation not supported"]
    work.succeed()
    runner.run_pass()
    assert scene.run(run_id).status == "succeeded"


def test_lost_work_is_tried_again(scene: Scene) -> None:
    """X-07: killed with its supervisor, it uses an attempt."""
    runner = scene.runner()
    run_id, work = scene.started(runner)
    work.progress = Lost("gone")
    runner.run_pass()
    assert (scene.run(run_id).status, scene.run(run_id).error, scene.run(run_id).attempt) == ("pending", "gone", 1)


def test_work_goes_on_while_the_database_is_gone(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-05: ten minutes without a database; then whoever comes first does not take the other's claims for lapsed."""
    here, there = scene.runner(), scene.runner("there")
    goes_on, _ = scene.started(here)
    ends, work = scene.started(here)
    there.run_pass()
    with scene.database_gone(monkeypatch):
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


def test_a_clock_set_ahead_reaps_nobody(scene: Scene) -> None:
    """L-12: the leases lapsed by that alone; those whose workers are really gone are taken a lease later."""
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


def test_a_claim_whose_answer_was_lost_is_handed_back(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 5: the commit came through, the answer did not; the run is not stuck, and no attempt is used."""
    runner = scene.runner()
    runner.run_pass()
    run_id = scene.rows.run(scene.trigger)
    write = scene.database.write

    @contextmanager
    def answer_lost() -> Iterator[Any]:
        with write() as connection:
            yield connection
        raise Unavailable("connection reset")

    with monkeypatch.context() as patch:
        patch.setattr(scene.database, "write", answer_lost)
        with pytest.raises(Unavailable):
            runner.run_pass()
    assert scene.run(run_id).status == "running"
    assert runner.run_pass().claimed == 1
    run = scene.run(run_id)
    assert (run.status, run.attempt, len(scene.launcher.works)) == ("running", 1, 1)


def test_an_end_that_cannot_be_written_keeps_nobody(scene: Scene) -> None:
    """L-13: one run's poison is set aside and tried again; the other's end is written."""
    runner = scene.runner()
    poisoned, bad = scene.started(runner)
    other, good = scene.started(runner)
    bad.succeed(answer=object())
    good.succeed()
    runner.run_pass()
    assert (scene.run(other).status, scene.run(poisoned).status) == ("succeeded", "running")
    assert scene.names().count("settle.failed") == 1
    bad.succeed(answer=1)
    scene.advance(30 * SECOND, runner)
    assert scene.run(poisoned).status == "succeeded"


class Unreadable:
    """Work whose launcher breaks at whatever is asked of it."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def broken(*_: Any, **options: Any) -> Any:
            self.asked.append(f"{name} by force" if options.get("force") else name)
            raise KeyError(name)

        return broken


def test_work_that_cannot_be_looked_at_keeps_nobody(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-05, X-10: others start, are renewed and end; its own timeout ends it, by force, and then it is given up."""
    scene.rows.task(version="v2", timeout="90s")
    runner = scene.runner()
    with monkeypatch.context() as patched:
        patched.setattr(scripted, "ScriptedWork", Unreadable)
        broken, work = scene.started(runner, task_version="v2", max_attempts=1)
    other, good = scene.started(runner)
    scene.advance(89 * SECOND, runner, step=SECOND)
    good.succeed()
    runner.run_pass()
    assert (scene.run(other).status, scene.run(broken).status) == ("succeeded", "running")
    assert isinstance(work, Unreadable)
    assert "cancel" not in work.asked
    scene.advance(21 * SECOND, runner, step=SECOND)
    assert [name for name in work.asked if name.startswith("cancel")][:2] == ["cancel", "cancel by force"]
    run = scene.run(broken)
    assert (run.status, run.error) == ("timed_out", "timed out: cannot be looked at: KeyError('poll')")
    assert runner.run_pass().live == 0
    assert set(scene.names()) >= {"work.unreadable", "attempt.left_behind"}
    assert "runner.failed" not in scene.names()


def test_work_that_cannot_be_asked_to_end_is_cancelled(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-11: for nobody waits for a launcher that breaks."""
    runner = scene.runner()
    with monkeypatch.context() as patched:
        patched.setattr(scripted, "ScriptedWork", Unreadable)
        broken, _ = scene.started(runner)
    scene.cancel(broken)
    scene.advance(22 * SECOND, runner, step=SECOND)
    assert scene.run(broken).status == "cancelled"


def test_stopping_hands_back_what_does_not_end_in_time(scene: Scene) -> None:
    """X-07: a hand-back on SIGTERM uses no attempt; the next worker begins it anew."""
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


def test_stopping_waits_for_nothing_once_all_is_handed_back(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-07: the pass that hands the last work back is the last thing a stop does."""
    runner = scene.runner()
    run_id, _ = scene.started(runner)
    live_while_waiting: list[int] = []
    monkeypatch.setattr(Condition, "wait", lambda *_: live_while_waiting.append(runner.live))
    runner.stop(timedelta(0))
    assert scene.run(run_id).status == "pending"
    assert all(live_while_waiting)


def test_stopping_lets_work_end_within_the_grace(scene: Scene) -> None:
    """X-07: what ends in time is settled as it ended; nothing new is claimed meanwhile."""
    runner = scene.runner()
    run_id, work = scene.started(runner)
    waiting = scene.rows.run(scene.trigger)
    scene.observations.subscribe(lambda observation: work.succeed() if isinstance(observation, LeaseRenewed) else None)
    scene.clock.advance(20 * SECOND)
    runner.stop(timedelta(seconds=5))
    assert work.cancelled == []
    assert (scene.run(run_id).status, scene.run(waiting).status) == ("succeeded", "pending")


def test_the_thread_survives_the_database(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-16: it backs off, and goes on when the database is back."""
    runner = scene.runner()
    with scene.database_gone(monkeypatch):
        runner.start()
        eventually(lambda: scene.names().count("runner.unavailable") >= 3)
    run_id = scene.rows.run(scene.trigger)
    eventually(lambda: scene.launcher.works)[0].succeed()
    eventually(lambda: scene.run(run_id).status == "succeeded")
    runner.stop(timedelta(0))


def test_the_claim_of_what_a_task_spec_breaks_does_not_end_the_thread(scene: Scene) -> None:
    """L-13: a stored spec nobody can read fails its runs alone."""
    scene.rows.task(version="v2", timeout="soon")
    runner = scene.runner()
    run_id = scene.rows.run(scene.trigger, task_version="v2", max_attempts=1)
    runner.run_pass()
    assert "could not be launched" in (scene.run(run_id).error or "")
    assert json.loads(scene.run(run_id).input) == {}


def test_a_run_finds_the_state_that_the_one_before_answered(scene: Scene) -> None:
    """X-03, X-06: the next run, and the next attempt of the same one, go on from there."""
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
    """X-18: at its instant it still starts, later it never does; that is told, and its key is free."""
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


def test_a_run_expires_although_there_is_no_room_for_it(scene: Scene) -> None:
    """X-18: while all places are taken, and under a freeze, time goes on."""
    runner = scene.runner(capacity=1)
    scene.started(runner)
    waiting = scene.rows.run(scene.trigger, start_by=scene.clock.now() + 5 * SECOND)
    scene.advance(10 * SECOND, runner)
    assert scene.run(waiting).status == "expired"
    Holds(scene.database, scene.observations).freeze(None, None, Caller("ann", "stocktaking"))
    frozen = scene.rows.run(scene.trigger, start_by=scene.clock.now() + 5 * SECOND)
    scene.advance(10 * SECOND, runner)
    assert scene.run(frozen).status == "expired"


def test_what_began_in_time_never_expires(scene: Scene) -> None:
    """X-18: neither a run between two attempts nor one that a stopped controller gave back."""
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
