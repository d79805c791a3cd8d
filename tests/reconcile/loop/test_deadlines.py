"""Deadlines of existing triggers: a missed one is recorded once, whatever happened to the runs."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reconcile.decide.authority import Caller
from reconcile.loop.deadlines import LIMIT, judge_deadlines
from reconcile.observations.passes import DeadlineMissed, ExpectationUnreadable
from reconcile.runs.runner import Runner, RunnerSettings
from reconcile.triggers import holds
from revisions.ids import TriggerKey
from revisions.outcomes import DeadlineKind
from revisions.store import expectations
from revisions.store.expectations import MissedDeadline
from tests.observing import only
from tests.reconcile.scripted import ScriptedLauncher
from tests.tampering import edit
from tests.world import World, key

HOUR: dict[str, Any] = {"schedule": {"every": "1h"}, "expect": {"within": "10m"}}


class Scene:
    """World with a runner whose tasks end as the test decides."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.launcher = ScriptedLauncher()
        self.runner = Runner(
            world.database,
            world.observations,
            {"process": self.launcher},
            settings=RunnerSettings(folder / "work", folder),
        )

    def until(self, time: str, *, resync: bool = True) -> None:
        """Advance the clock to a time of the first day, and resync unless told otherwise."""
        hour, minute = map(int, time.split(":"))
        now = self.world.clock_now()
        self.world.advance(seconds=(now.replace(hour=hour, minute=minute) - now).total_seconds())
        if resync:
            self.world.resync()

    def succeed(self, **output: Any) -> None:
        """Start the oldest pending run and let it succeed."""
        assert self.runner.run_pass().claimed
        self.launcher.last.succeed(**output)
        assert self.runner.run_pass().settled

    def fail(self) -> None:
        assert self.runner.run_pass().claimed
        self.launcher.last.fail()
        assert self.runner.run_pass().settled

    def judge(self) -> int:
        """Judge the deadlines that have come, as a replica does, and return the number missed."""
        return judge_deadlines(self.world.database, self.world.observations)

    def missed(self, name: str = "tick") -> list[MissedDeadline]:
        """Return the missed deadlines of a trigger, oldest first."""
        with self.world.database.read() as connection:
            return expectations.page(connection, self.world.id(name), None, 10_000)[::-1]

    def missed_times(self, name: str = "tick") -> list[str]:
        return [deadline.due_at.strftime("%H:%M") for deadline in self.missed(name)]

    def observed_times(self) -> list[str]:
        return [missed.due_at.strftime("%H:%M") for missed in only(DeadlineMissed, self.world.observed)]


@pytest.fixture
def scene(world: World, tmp_path: Path) -> Scene:
    return Scene(world, tmp_path)


def test_a_missed_deadline_is_recorded_and_observed_once(scene: Scene) -> None:
    """X-16: by the first check after the deadline; later checks do not repeat it."""
    scene.world.create(**HOUR)
    scene.until("09:00")
    scene.until("09:09")
    assert scene.missed() == []
    scene.until("09:10")
    scene.until("09:50")
    [missed] = scene.missed()
    nine = datetime(2026, 3, 2, 9, tzinfo=UTC)
    ten_past = nine + timedelta(minutes=10)
    expected = MissedDeadline(
        scene.world.id("tick"),
        DeadlineKind.WITHIN,
        ten_past,
        nine,
        "every/2026-03-02T09:00:00Z",
        1,
        noticed_at=ten_past,
    )
    assert missed == expected
    assert scene.observed_times() == ["09:10"]


def test_a_success_in_time_meets_the_deadline(scene: Scene) -> None:
    """X-16: the next occurrence has its own deadline."""
    scene.world.create(**HOUR)
    scene.until("09:00")
    scene.until("09:09")
    scene.succeed()
    scene.until("10:00")
    scene.until("10:10")
    assert scene.missed_times() == ["10:10"]


def test_a_success_after_the_deadline_does_not_meet_it(scene: Scene) -> None:
    """X-16: even if the success came before the first check."""
    scene.world.create(**HOUR)
    scene.until("09:00")
    scene.until("09:11", resync=False)
    scene.succeed()
    scene.until("09:12")
    assert scene.missed_times() == ["09:10"]


def test_a_manual_success_meets_the_deadline(scene: Scene) -> None:
    """X-16, X-11: it may follow a failed run. A success from before the occurrence does not count."""
    scene.world.create(**HOUR, retry={"max_attempts": 1})
    scene.world.fire(key("tick"), None, Caller("ann"))
    scene.succeed()
    scene.until("09:00")
    scene.fail()
    scene.until("09:05")
    scene.world.fire(key("tick"), None, Caller("ann"))
    scene.succeed()
    scene.until("10:00")
    scene.until("10:10")
    assert scene.missed_times() == ["10:10"]


def test_a_deploy_that_leaves_the_expectation_alone_keeps_the_deadline(scene: Scene) -> None:
    """X-16: the deadline belongs to the trigger; its row names the revision in force."""
    scene.world.create(**HOUR)
    scene.until("09:00")
    scene.until("09:05")
    scene.world.update("tick", 1, **HOUR, description="new")
    scene.until("09:10")
    assert [(deadline.due_at.minute, deadline.revision) for deadline in scene.missed()] == [(10, 2)]


def test_removing_the_expectation_does_not_hide_deadlines_missed_before(scene: Scene) -> None:
    """X-16: even if none was checked before the deploy. From the deploy on there are no deadlines."""
    scene.world.create(**HOUR)
    scene.until("09:00")
    scene.until("09:20", resync=False)
    scene.world.update("tick", 1, schedule=HOUR["schedule"])
    scene.until("09:21")
    scene.until("10:30")
    assert scene.missed_times() == ["09:10"]
    scene.world.update("tick", 2, **HOUR)
    scene.until("10:40")
    assert scene.missed_times() == ["09:10"]
    scene.until("11:10")
    assert scene.missed_times() == ["09:10", "11:10"]


def test_a_trigger_stopped_for_its_failures_still_misses_deadlines(scene: Scene) -> None:
    """X-16, X-07: until a person activates or pauses it."""
    scene.world.create(**HOUR, retry={"max_attempts": 1}, deactivate_after=1)
    scene.until("09:00")
    scene.fail()
    assert scene.world.history()[0].reason == "failures"
    scene.until("09:10")
    scene.until("10:10")
    assert scene.missed_times() == ["09:10", "10:10"]
    scene.world.activate("tick", 2)
    scene.world.deactivate("tick", 3, "known")
    scene.until("12:10")
    assert scene.missed_times() == ["09:10", "10:10"]


def test_a_trigger_stopped_for_its_budget_still_misses_deadlines(scene: Scene) -> None:
    """X-16, X-08: no person asked for this pause."""
    scene.world.create(**HOUR, limits={"max_cost": 1, "estimate": 0.1})
    scene.until("09:00")
    scene.succeed(cost=5)
    assert scene.world.history()[0].reason == "budget"
    scene.until("09:10")
    scene.until("11:10")
    assert scene.missed_times() == ["10:10", "11:10"]


def test_the_deadline_of_a_one_shot_outlasts_its_completion(scene: Scene) -> None:
    """X-16, S-15: the system deactivates the trigger together with its last decision."""
    scene.world.create(schedule={"at": "2026-03-02T09:00:00Z"}, expect={"within": "10m"})
    scene.until("09:00")
    assert scene.world.history()[0].reason == "completed"
    scene.until("09:10")
    scene.until("10:10")
    assert scene.missed_times() == ["09:10"]


def test_a_paused_trigger_misses_no_deadlines_and_a_frozen_one_does(scene: Scene) -> None:
    """X-16: a pause is meant for this trigger; a freeze stops triggers whose deadlines still matter."""
    world = scene.world
    world.create("paused", **HOUR)
    world.create("frozen", **HOUR)
    scene.until("09:00")
    world.deactivate("paused", 1)
    holds.freeze(world.database, world.observations, "acme", None, Caller("ann", "incident"))
    scene.until("10:10")
    world.activate("paused", 2)
    scene.until("10:20")
    assert (scene.missed_times("paused"), scene.missed_times("frozen")) == ([], ["09:10", "10:10"])


def test_a_requested_fire_moves_the_next_deadline(scene: Scene) -> None:
    """X-16, S-08: the scheduled occurrences before the requested fire have no deadlines."""
    scene.world.create(**HOUR, overlap="allow")
    scene.until("09:00")
    scene.succeed(next_fire_at="2026-03-02T11:20:00Z")
    scene.until("10:15")
    scene.until("11:20")
    scene.until("11:29")
    assert scene.missed_times() == []
    scene.until("11:30")
    assert scene.missed_times() == ["11:30"]
    assert scene.missed()[0].occurrence_id.startswith("next/")
    scene.until("12:10")
    assert scene.missed_times() == ["11:30", "12:10"]


def test_the_deadlines_of_a_long_outage_are_judged_in_parts(scene: Scene) -> None:
    """X-16: one check judges at most `LIMIT` deadlines, and none is passed over."""
    scene.world.create(expect={"within": "10s"}, catchup={"policy": "none"})
    scene.world.advance(minutes=LIMIT + 20)
    assert [scene.judge() for _ in range(3)] == [LIMIT, 19, 0]
    assert len({deadline.due_at for deadline in scene.missed()}) == LIMIT + 19


def test_replicas_record_a_missed_deadline_once(scene: Scene) -> None:
    """X-16: although all of them check at the same time."""
    for number in range(5):
        scene.world.create(f"t{number}", **HOUR)
    scene.until("09:30", resync=False)
    with ThreadPoolExecutor(4) as pool:
        missed = [call.result() for call in [pool.submit(scene.judge) for _ in range(4)]]
    assert sum(missed) + scene.judge() == 5
    assert scene.observed_times() == ["09:10"] * 5


def test_an_unreadable_revision_postpones_only_the_deadlines_of_its_trigger(scene: Scene) -> None:
    """X-16, L-13: the failure is observed, and the deadlines of other triggers are judged."""
    world = scene.world
    world.create("bad", **HOUR)
    world.update("bad", 1, **HOUR, description="new")
    world.create("good", **HOUR)
    spec = world.history("bad")[0].spec
    edit(world.database, 2, spec=spec.replace('"1h"', '"1 fortnight"'))
    scene.until("09:30", resync=False)
    scene.judge()
    assert scene.missed_times("good") == ["09:10"]
    edit(world.database, 2, spec=spec)
    assert [unreadable.trigger for unreadable in only(ExpectationUnreadable, world.observed)] == [
        TriggerKey("acme", "production", "report", "bad")
    ]
    scene.until("10:30", resync=False)
    scene.judge()
    assert scene.missed_times("bad") == ["09:10", "10:10"]
