"""`catchup: {inactive: true}`: occurrences of the time in which a trigger is paused or deleted are decided later."""

from datetime import timedelta

import pytest

from tests.world import World

COUNTS = {"policy": "all", "inactive": True}


def minutes(world: World) -> list[int]:
    """Return the scheduled minutes of all runs, counted from the start of the world."""
    return [int((run.scheduled_at - world.start) / timedelta(minutes=1)) for run in world.runs()]


@pytest.mark.parametrize("how", ["deactivated", "deleted"])
def test_inactive_time_is_caught_up(world: World, how: str) -> None:
    """R-21: under policy `all` every minute starts; neither change of the trigger records a superseded range."""
    world.create(catchup=COUNTS)
    world.advance(minutes=5)
    world.resync()
    world.advance(minutes=2)  # still undecided at the change
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


def test_policy_latest_starts_only_the_newest_occurrence_of_a_pause(world: World) -> None:
    """R-21, L-06: the others are recorded as missed, as after an outage."""
    world.create(catchup={"policy": "latest", "inactive": True})
    world.deactivate("tick", 1)
    world.advance(minutes=30)
    world.activate("tick", 2)
    world.resync()
    assert minutes(world) == [30]
    assert [(skip.outcome, skip.count) for skip in world.skips()] == [("missed", 29)]


def test_a_pause_with_an_end_is_caught_up_from_its_beginning(world: World) -> None:
    """R-20, R-21: not only from the end of the pause."""
    world.create(catchup=COUNTS)
    world.deactivate("tick", 1, until=world.clock_now() + timedelta(minutes=10))
    world.advance(minutes=12)
    world.resync()
    world.resync()
    assert minutes(world) == list(range(1, 13))


def test_a_changed_schedule_declares_a_baseline(world: World) -> None:
    """R-21: the undecided occurrences of the former schedule are superseded."""
    world.create(catchup=COUNTS)
    world.advance(minutes=10)
    world.update("tick", 1, catchup=COUNTS, schedule={"every": "5m"})
    (skip,) = world.skips()
    assert (skip.outcome, skip.count) == ("superseded", 10)
    assert world.status().watermark == world.clock_now()


def test_without_the_option_a_pause_has_no_occurrences(world: World) -> None:
    """R-21: even under policy `all`."""
    world.create(catchup={"policy": "all"})
    world.deactivate("tick", 1)
    world.advance(minutes=30)
    world.activate("tick", 2)
    world.advance(minutes=2)
    world.resync()
    assert minutes(world) == [31, 32]


def test_a_schedule_changed_in_a_pause_supersedes_all_undecided_occurrences(world: World) -> None:
    """R-21: those of the pause and those of a backlog."""
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
def test_changing_the_option_in_a_pause_declares_a_baseline(world: World, counted: bool) -> None:
    """R-21: the time before the change is settled under the former option."""
    world.create(catchup={"policy": "all", "inactive": counted}, overlap="allow")
    world.deactivate("tick", 1)
    world.advance(minutes=5)
    world.update("tick", 2, catchup={"policy": "all", "inactive": not counted}, overlap="allow")
    world.advance(minutes=3)
    world.activate("tick", 3)
    world.resync()
    assert [(skip.outcome, skip.count) for skip in world.skips()] == ([("superseded", 5)] if counted else [])
    assert len(world.runs()) == (0 if counted else 3)


def test_a_pause_that_ended_before_a_deploy_resumes_at_the_deploy(world: World) -> None:
    """L-05, R-20: no pass ran between the end of the pause and the deploy; the new schedule fires nothing before it."""
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
