"""Clocks that step, backwards and forwards (L-12)."""

from datetime import timedelta

import pytest

from reconcile.observations.passes import ClockJumped
from reconcile.triggers.caller import Caller
from reconcile.triggers.deploy import rebase_watermark
from revisions.clock import HandClock
from revisions.errors import Conflict
from revisions.store import status as status_store
from tests.observing import only
from tests.world import World, key


def step(world: World, **span: float) -> None:
    """Only the wall clock moves."""
    assert isinstance(world.clock, HandClock)
    world.clock.step(timedelta(**span))


def minutes(world: World) -> list[int]:
    return [round((run.scheduled_at - world.start).total_seconds() / 60) for run in world.runs()]


def jumped(world: World) -> int:
    return len(only(ClockJumped, world.observed))


def test_a_step_back_fires_nothing_twice(world: World) -> None:
    """L-12: what was decided stays decided; it goes on once the clock has caught up with the watermark."""
    world.create(overlap="allow")
    for _ in range(3):
        world.advance(minutes=1)
        world.resync()
    step(world, minutes=-2)
    for _ in range(4):
        world.advance(minutes=1)
        world.resync()
    assert minutes(world) == [1, 2, 3, 4, 5]
    assert jumped(world) == 0


def test_a_step_forward_is_acted_on_when_it_is_seen_twice(world: World) -> None:
    """L-12: neither resync, nor alarm, nor catch-up acts on it; the second resync does, and it is catch-up."""
    world.create(overlap="allow")
    world.advance(minutes=1)
    world.resync()
    step(world, hours=3)
    world.loop.due([world.id("tick")])
    world.resync()
    world.loop.due([world.id("tick")])
    world.loop.catch_up()
    assert (minutes(world), jumped(world)) == ([1], 1)
    world.advance(seconds=30)
    world.resync()
    assert minutes(world) == [1, 181]
    assert [(skip.outcome, skip.count) for skip in world.skips()] == [("missed", 179)]


def test_a_step_that_is_taken_back_changes_nothing(world: World) -> None:
    """L-12: a clock that was wrong for a moment neither fires nor ends a pause."""
    world.create(overlap="allow")
    world.create("paused")
    world.deactivate("paused", 1, until=world.start + timedelta(hours=1))
    world.advance(minutes=1)
    world.resync()
    step(world, days=1)
    world.resync()
    step(world, days=-1)
    world.advance(minutes=1)
    world.resync()
    assert minutes(world) == [1, 2]
    assert len(world.history("paused")) == 2


def test_five_minutes_are_no_jump(world: World) -> None:
    """L-12: up to five minutes beyond the monotonic time are believed at once."""
    world.create(overlap="allow")
    world.resync()
    step(world, minutes=5)
    world.resync()
    assert (minutes(world), jumped(world)) == ([5], 0)


def test_time_that_really_went_by_is_no_jump(world: World) -> None:
    """L-12: a loop that slept for a day on both clocks acts at once, and so does one that starts."""
    world.create(overlap="allow")
    world.resync()
    world.advance(days=1)
    world.resync()
    assert minutes(world) == [1440]
    step(world, days=1)
    world.loop = world.another_loop()
    world.resync()
    assert minutes(world) == [1440, 2880]


def test_a_watermark_ahead_is_set_back_by_a_revision_that_says_so(world: World) -> None:
    """L-12: `--rebase` is the only way back; it is recorded with actor and reason, and refused otherwise."""
    world.create(overlap="allow")
    step(world, days=2)
    world.resync()
    world.resync()
    step(world, days=-2)
    world.advance(minutes=1)
    world.resync()
    assert len(world.runs()) == 1
    rebased = rebase_watermark(world.database, world.observations, key("tick"), Caller("ann", "the clock was wrong"))
    (newest, _) = world.history()
    assert rebased.changed
    assert newest.reason == "watermark set back from 2026-03-04T08:00:00Z: the clock was wrong"
    assert newest.actor == "ann"
    world.advance(minutes=1)
    world.resync()
    assert sorted(minutes(world)) == [2, 2880]
    with pytest.raises(Conflict, match="is not ahead of now"):
        rebase_watermark(world.database, world.observations, key("tick"), Caller("ann"))
    with world.database.read() as connection:
        assert status_store.without_next_fire(connection) == []
