"""`catchup: {inactive: true}`: time in which a trigger is paused or deleted counts like any other."""

from datetime import timedelta

import pytest

from tests.world import World

COUNTS = {"policy": "all", "inactive": True}


def minutes(world: World) -> list[int]:
    """The scheduled minutes of all runs, counted from the start."""
    return [int((run.scheduled_at - world.start) / timedelta(minutes=1)) for run in world.runs()]


@pytest.mark.parametrize("how", ["deactivated", "deleted"])
def test_paused_time_is_caught_up(world: World, how: str) -> None:
    """R-21: under policy all every minute in between is started; neither change records anything as superseded."""
    world.create(catchup=COUNTS)
    world.advance(minutes=5)
    world.resync()
    world.advance(minutes=2)  # undecided when it is paused
    if how == "deactivated":
        world.deactivate("tick", 1)
    else:
        world.delete("tick", 1)
    assert world.status().next_fire_at is None
    world.advance(minutes=30)
    world.resync()
    assert minutes(world) == [1, 2, 3, 4, 5]
    if how == "deactivated":
        world.activate("tick", 2)
    else:
        world.create(catchup=COUNTS)
    world.advance(minutes=3)
    world.resync()
    assert minutes(world) == list(range(1, 41))
    assert world.skips() == []


def test_only_the_newest_of_paused_time_under_latest(world: World) -> None:
    """R-21, L-06: policy latest starts the newest and records the others as missed, as after any other outage."""
    world.create(catchup={"policy": "latest", "inactive": True})
    world.deactivate("tick", 1)
    world.advance(minutes=30)
    world.activate("tick", 2)
    world.resync()
    assert minutes(world) == [30]
    assert [(skip.outcome, skip.count) for skip in world.skips()] == [("missed", 29)]


def test_a_pause_that_ends_by_itself_is_caught_up_too(world: World) -> None:
    """R-20, R-21: from where it was paused, not only from the end of the pause."""
    world.create(catchup=COUNTS)
    world.deactivate("tick", 1, until=world.clock_now() + timedelta(minutes=10))
    world.advance(minutes=12)
    world.resync()
    world.resync()
    assert minutes(world) == list(range(1, 13))


def test_a_changed_schedule_begins_anew_all_the_same(world: World) -> None:
    """R-21: another schedule has another past: what was undecided is superseded, and a new baseline declared."""
    world.create(catchup=COUNTS)
    world.advance(minutes=10)
    world.update("tick", 1, catchup=COUNTS, schedule={"every": "5m"})
    (skip,) = world.skips()
    assert (skip.outcome, skip.count) == ("superseded", 10)
    assert world.status().watermark == world.clock_now()


def test_without_it_paused_time_has_no_occurrences(world: World) -> None:
    """R-21: the same pause under policy all starts nothing of it."""
    world.create(catchup={"policy": "all"})
    world.deactivate("tick", 1)
    world.advance(minutes=30)
    world.activate("tick", 2)
    world.advance(minutes=2)
    world.resync()
    assert minutes(world) == [31, 32]


def test_another_schedule_in_a_pause_records_what_was_undecided(world: World) -> None:
    """R-21: where paused time counts, a changed schedule leaves none of it unrecorded, backlogs neither."""
    world.create(catchup={"policy": "all", "inactive": True}, overlap="allow")
    world.loop = world.another_loop_without_catch_up()
    world.advance(minutes=10)
    world.resync()
    assert len(world.runs()) == 2
    world.deactivate("tick", 1)
    world.advance(minutes=5)
    world.update("tick", 2, schedule={"every": "1h"}, catchup={"policy": "all", "inactive": True})
    assert [(skip.outcome, skip.count) for skip in world.skips()] == [("superseded", 13)]


@pytest.mark.parametrize("counted", [True, False])
def test_to_begin_or_end_counting_paused_time_is_a_baseline(world: World, counted: bool) -> None:
    """R-21: told in a pause that its time counts no more, or from now on, what lies before is settled then."""
    world.create(catchup={"policy": "all", "inactive": counted}, overlap="allow")
    world.deactivate("tick", 1)
    world.advance(minutes=5)
    world.update("tick", 2, catchup={"policy": "all", "inactive": not counted}, overlap="allow")
    world.advance(minutes=3)
    world.activate("tick", 3)
    world.resync()
    assert [(skip.outcome, skip.count) for skip in world.skips()] == ([("superseded", 5)] if counted else [])
    assert len(world.runs()) == (0 if counted else 3)


def test_a_pause_that_ended_unseen_resumes_no_earlier_than_what_was_deployed(world: World) -> None:
    """L-05, R-20: a schedule deployed after the end of the pause, which nobody saw, fires no time before itself."""
    world.create(schedule={"every": "1h"})
    world.deactivate("tick", 1, until=world.start + timedelta(minutes=10))
    world.advance(minutes=30)
    world.update("tick", 2, catchup={"policy": "all"}, overlap="allow")
    world.resync()
    assert world.history()[0].actor == "system"
    assert world.status().watermark == world.start + timedelta(minutes=30)
    world.advance(minutes=1)
    world.resync()
    assert [run.scheduled_at for run in world.runs()] == [world.start + timedelta(minutes=31)]
