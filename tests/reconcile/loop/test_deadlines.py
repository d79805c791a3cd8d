"""Deadlines of triggers that live: noticed once, whatever became of their runs."""

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
    """A world with a runner whose tasks do what the test says."""

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
        """Goes on to a time of that Monday, with a pass then."""
        hour, minute = map(int, time.split(":"))
        now = self.world.clock_now()
        self.world.advance(seconds=(now.replace(hour=hour, minute=minute) - now).total_seconds())
        if resync:
            self.world.resync()

    def succeed(self, **output: Any) -> None:
        """The oldest waiting run, from its start to its end."""
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
        """Oldest first."""
        with self.world.database.read() as connection:
            return expectations.page(connection, self.world.id(name), None, 10_000)[::-1]

    def due(self, name: str = "tick") -> list[str]:
        return [one.due_at.strftime("%H:%M") for one in self.missed(name)]

    def told(self) -> list[str]:
        return [missed.due_at.strftime("%H:%M") for missed in only(DeadlineMissed, self.world.observed)]


@pytest.fixture
def scene(world: World, tmp_path: Path) -> Scene:
    return Scene(world, tmp_path)


def test_a_deadline_without_a_success_is_noticed_once(scene: Scene) -> None:
    """X-16: by the first look after it; kept, told, and not again by the looks that follow."""
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
    assert scene.told() == ["09:10"]


def test_a_success_in_time_meets_it(scene: Scene) -> None:
    """X-16: and the one of the next hour is another."""
    scene.world.create(**HOUR)
    scene.until("09:00")
    scene.until("09:09")
    scene.succeed()
    scene.until("10:00")
    scene.until("10:10")
    assert scene.due() == ["10:10"]


def test_a_success_that_is_caught_up_late_is_late(scene: Scene) -> None:
    """X-16: though it came before anybody looked."""
    scene.world.create(**HOUR)
    scene.until("09:00")
    scene.until("09:11", resync=False)
    scene.succeed()
    scene.until("09:12")
    assert scene.due() == ["09:10"]


def test_a_run_by_hand_meets_it_too(scene: Scene) -> None:
    """X-16, X-11: after a failure, in time; one of before the occurrence does not."""
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
    assert scene.due() == ["10:10"]


def test_a_deploy_that_does_not_change_it_does_not_disarm_it(scene: Scene) -> None:
    """X-16: the deadline is bound to the trigger; the row says which revision was in force."""
    scene.world.create(**HOUR)
    scene.until("09:00")
    scene.until("09:05")
    scene.world.update("tick", 1, **HOUR, description="new")
    scene.until("09:10")
    assert [(one.due_at.minute, one.revision) for one in scene.missed()] == [(10, 2)]


def test_a_deploy_that_removes_it_does_not_hide_what_came_before(scene: Scene) -> None:
    """X-16: nobody had looked yet; later deadlines there are none."""
    scene.world.create(**HOUR)
    scene.until("09:00")
    scene.until("09:20", resync=False)
    scene.world.update("tick", 1, schedule=HOUR["schedule"])
    scene.until("09:21")
    scene.until("10:30")
    assert scene.due() == ["09:10"]
    scene.world.update("tick", 2, **HOUR)
    scene.until("10:40")
    assert scene.due() == ["09:10"]
    scene.until("11:10")
    assert scene.due() == ["09:10", "11:10"]


def test_a_trigger_that_failed_until_it_was_stopped_is_missed_all_the_same(scene: Scene) -> None:
    """X-16, X-07: what the system stopped is what one wants to know of, until somebody takes it in hand."""
    scene.world.create(**HOUR, retry={"max_attempts": 1}, deactivate_after=1)
    scene.until("09:00")
    scene.fail()
    assert scene.world.history()[0].reason == "failures"
    scene.until("09:10")
    scene.until("10:10")
    assert scene.due() == ["09:10", "10:10"]
    scene.world.activate("tick", 2)
    scene.world.deactivate("tick", 3, "known")
    scene.until("12:10")
    assert scene.due() == ["09:10", "10:10"]


def test_a_trigger_that_spent_its_budget_is_missed_until_the_next_period(scene: Scene) -> None:
    """X-16, X-08: its rest is no pause that anybody asked for."""
    scene.world.create(**HOUR, limits={"max_cost": 1, "estimate": 0.1})
    scene.until("09:00")
    scene.succeed(cost=5)
    assert scene.world.history()[0].reason == "budget"
    scene.until("09:10")
    scene.until("11:10")
    assert scene.due() == ["10:10", "11:10"]


def test_one_that_fires_once_is_expected_after_it_is_completed(scene: Scene) -> None:
    """X-16, S-15: the system deactivates it with its last decision."""
    scene.world.create(schedule={"at": "2026-03-02T09:00:00Z"}, expect={"within": "10m"})
    scene.until("09:00")
    assert scene.world.history()[0].reason == "completed"
    scene.until("09:10")
    scene.until("10:10")
    assert scene.due() == ["09:10"]


def test_a_pause_expects_nothing_and_a_freeze_excuses_nothing(scene: Scene) -> None:
    """X-16: who pauses a trigger means it; a freeze is when one wants to know."""
    world = scene.world
    world.create("paused", **HOUR)
    world.create("frozen", **HOUR)
    scene.until("09:00")
    world.deactivate("paused", 1)
    holds.freeze(world.database, world.observations, "acme", None, Caller("ann", "incident"))
    scene.until("10:10")
    world.activate("paused", 2)
    scene.until("10:20")
    assert (scene.due("paused"), scene.due("frozen")) == ([], ["09:10", "10:10"])


def test_a_run_that_asks_for_its_next_fire_moves_what_is_expected(scene: Scene) -> None:
    """X-16, S-08: the slots before it are not waited for, it is."""
    scene.world.create(**HOUR, overlap="allow")
    scene.until("09:00")
    scene.succeed(next_fire_at="2026-03-02T11:20:00Z")
    scene.until("10:15")
    scene.until("11:20")
    scene.until("11:29")
    assert scene.due() == []
    scene.until("11:30")
    assert scene.due() == ["11:30"]
    assert scene.missed()[0].occurrence_id.startswith("next/")
    scene.until("12:10")
    assert scene.due() == ["11:30", "12:10"]


def test_a_long_outage_is_judged_whole_in_parts(scene: Scene) -> None:
    """X-16: no deadline is passed over, and no look takes on more than so many."""
    scene.world.create(expect={"within": "10s"}, catchup={"policy": "none"})
    scene.world.advance(minutes=LIMIT + 20)
    assert [scene.judge() for _ in range(3)] == [LIMIT, 19, 0]
    assert len({one.due_at for one in scene.missed()}) == LIMIT + 19


def test_replicas_notice_a_deadline_once(scene: Scene) -> None:
    """X-16: all look at one time; one of them tells."""
    for number in range(5):
        scene.world.create(f"t{number}", **HOUR)
    scene.until("09:30", resync=False)
    with ThreadPoolExecutor(4) as pool:
        missed = [call.result() for call in [pool.submit(scene.judge) for _ in range(4)]]
    assert sum(missed) + scene.judge() == 5
    assert scene.told() == ["09:10"] * 5


def test_a_past_that_cannot_be_read_is_left_for_later(scene: Scene) -> None:
    """X-16, L-13: told, and the others are judged all the same."""
    world = scene.world
    world.create("bad", **HOUR)
    world.update("bad", 1, **HOUR, description="new")
    world.create("good", **HOUR)
    spec = world.history("bad")[0].spec
    edit(world.database, 2, spec=spec.replace('"1h"', '"1 fortnight"'))
    scene.until("09:30", resync=False)
    scene.judge()
    assert scene.due("good") == ["09:10"]
    edit(world.database, 2, spec=spec)
    assert [unreadable.trigger for unreadable in only(ExpectationUnreadable, world.observed)] == [
        TriggerKey("acme", "production", "report", "bad")
    ]
    scene.until("10:30", resync=False)
    scene.judge()
    assert scene.due("bad") == ["09:10", "10:10"]
