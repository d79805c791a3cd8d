"""Steps of the clock, backwards and forwards (L-12)."""

from datetime import UTC, datetime, timedelta

import pytest

from reconcile.decide.authority import Caller
from reconcile.loop.replica import ClockGuard
from reconcile.observations.passes import ClockJumped
from reconcile.triggers.deploy import rebase_watermark
from revisions.clock import HandClock
from revisions.errors import Conflict
from revisions.store import status as status_store
from tests.observing import only
from tests.world import World, key


def step(world: World, **span: float) -> None:
    """Move the wall clock only, not the monotonic one."""
    assert isinstance(world.clock, HandClock)
    world.clock.step(timedelta(**span))


def minutes(world: World) -> list[int]:
    return [round((run.scheduled_at - world.start).total_seconds() / 60) for run in world.runs()]


def jumped(world: World) -> int:
    return len(only(ClockJumped, world.observed))


def test_a_step_back_fires_nothing_twice(world: World) -> None:
    """L-12: nothing is decided again; deciding goes on once the clock is past the watermark."""
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


def test_a_step_forward_is_acted_on_after_two_resyncs(world: World) -> None:
    """L-12: the first resync, alarms and catch-up do not act on it; the second resync does, as after an outage."""
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
    """L-12: a clock that was wrong for a moment neither starts a run nor ends a pause."""
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


def test_a_jump_that_was_taken_back_is_doubted_anew(world: World) -> None:
    """L-12: a jump that one resync saw does not count for the same jump an hour later."""
    world.create(overlap="allow")
    world.resync()
    step(world, days=1)
    world.resync()
    step(world, days=-1)
    world.advance(minutes=1)
    world.resync()
    assert minutes(world) == [1]
    step(world, days=1)
    world.resync()
    assert (minutes(world), jumped(world)) == ([1], 2)
    world.resync()
    assert minutes(world) == [1, 1441]


NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


@pytest.mark.parametrize(
    ("readings", "accepted"),
    [
        pytest.param([(0, 0)], [True], id="the first reading is accepted"),
        pytest.param([(0, 0), (MINUTE, MINUTE)], [True, True], id="time that went by on both clocks"),
        pytest.param([(0, 0), (5 * MINUTE, 0)], [True, True], id="five minutes ahead"),
        pytest.param([(0, 0), (5 * MINUTE + 1, 0)], [True, False], id="more than five minutes ahead"),
        pytest.param([(0, 0), (-DAY, 0)], [True, True], id="a step back"),
        pytest.param([(0, 0), (DAY, 0), (DAY + 30, 30)], [True, False, True], id="a jump seen twice"),
        pytest.param([(0, 0), (DAY, 0), (2 * DAY, 30)], [True, False, False], id="a jump that goes on"),
        pytest.param(
            [(0, 0), (DAY, 0), (30, 30), (DAY + 60, 60)], [True, False, True, False], id="a jump taken back, and again"
        ),
        pytest.param([(0, 0), (DAY, 0), (DAY + HOUR, HOUR)], [True, False, True], id="seen twice, much later"),
        pytest.param(
            [(0, 0), (DAY, 0), (DAY, 0), (DAY + 6 * MINUTE, 0)],
            [True, False, True, False],
            id="a second jump after an accepted one",
        ),
    ],
)
def test_resyncs_accept_a_jump_that_two_of_them_saw(readings: list[tuple[float, float]], accepted: list[bool]) -> None:
    """L-12: readings are (seconds of the wall clock, seconds of the monotonic clock)."""
    guard = ClockGuard()
    assert [guard.accepts_at_resync(NOON + timedelta(seconds=wall), ticks) for wall, ticks in readings] == accepted


def test_passes_alone_never_accept_a_jump() -> None:
    """L-12: only resyncs confirm it, so a burst of alarms does not."""
    guard = ClockGuard()
    assert guard.accepts(NOON, 0)
    assert [guard.accepts(NOON + timedelta(days=1), 0) for _ in range(3)] == [False] * 3
    assert not guard.accepts_at_resync(NOON + timedelta(days=1), 0)
    assert not guard.accepts(NOON + timedelta(days=1), 0)
    assert guard.accepts_at_resync(NOON + timedelta(days=1), 0)
    assert guard.accepts(NOON + timedelta(days=1), 0)


def test_five_minutes_are_no_jump(world: World) -> None:
    """L-12: a step of up to five minutes is acted on at once."""
    world.create(overlap="allow")
    world.resync()
    step(world, minutes=5)
    world.resync()
    assert (minutes(world), jumped(world)) == ([5], 0)


def test_time_on_both_clocks_is_no_jump(world: World) -> None:
    """L-12: after a day on both clocks a loop acts at once, and so does a loop that has just started."""
    world.create(overlap="allow")
    world.resync()
    world.advance(days=1)
    world.resync()
    assert minutes(world) == [1440]
    step(world, days=1)
    world.loop = world.another_loop()
    world.resync()
    assert minutes(world) == [1440, 2880]


def test_a_watermark_ahead_is_set_back_by_a_rebase(world: World) -> None:
    """L-12: `--rebase` appends a revision with actor and reason; it is refused for a watermark that is not ahead."""
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
