"""Freezes and blackouts, observed through the loop."""

from datetime import timedelta
from typing import Any

import pytest

from reconcile.decide.admission import Pace
from reconcile.decide.authority import Caller
from reconcile.loop import loop as loops
from reconcile.observations.passes import LoopResynced
from reconcile.triggers import holds
from reconcile.triggers.holds import BlackoutScope
from revisions.errors import Conflict, Invalid, NotFound
from revisions.store.runs import Run
from tests.observing import only
from tests.waiting import eventually
from tests.world import World, key

ANN = Caller("ann", "maintenance")


def minutes(world: World, name: str = "tick") -> list[int]:
    """The scheduled minutes of the runs, counted from eight o'clock."""
    return [round((run.scheduled_at - world.start).total_seconds() / 60) for run in world.runs(name)]


def skipped(world: World) -> list[tuple[str, int | None]]:
    return [(skip.outcome, skip.count) for skip in world.skips()]


def live_through(world: World, number: int) -> None:
    for _ in range(number):
        world.advance(minutes=1)
        world.resync()


def test_a_freeze_decides_nothing_and_its_end_applies_the_catchup_policy(world: World) -> None:
    """S-13: watermarks stay while a project is frozen; afterwards the catch-up policy and its window decide."""
    world.create("latest", overlap="allow")
    world.create("all", catchup={"policy": "all"}, overlap="allow")
    live_through(world, 1)
    holds.freeze(world.database, world.observations, "acme", None, ANN)
    before = world.status("latest").watermark
    live_through(world, 5)
    assert (minutes(world, "latest"), minutes(world, "all")) == ([1], [1])
    assert world.status("latest").watermark == before
    holds.unfreeze(world.database, world.observations, "acme", ANN)
    world.resync()
    assert minutes(world, "latest") == [1, 6]
    assert minutes(world, "all") == [1, 2, 3, 4, 5, 6]


def test_the_end_of_a_freeze_takes_effect_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """S-13, L-04: also without a notification, long before the next resync."""
    monkeypatch.setattr(loops, "POLL_SECONDS", 0.02)
    world.create()
    holds.freeze(world.database, world.observations, "acme", None, ANN)

    def a_second_later() -> list[Run]:
        world.advance(seconds=1)
        return world.runs()

    world.loop = world.another_loop(Pace(execution_qps=0, resync_interval=timedelta(hours=1)))
    world.loop.start()
    try:
        eventually(lambda: only(LoopResynced, world.observed))
        world.advance(seconds=70)
        holds.unfreeze(world.database, world.observations, "acme", ANN)
        eventually(a_second_later, every=0.05)  # half an hour of the clock is a minute and a half for the loop
    finally:
        world.loop.stop()
    assert minutes(world)[0] == 1
    assert world.runs()[0].created_at < world.start + timedelta(minutes=30)


def test_a_freeze_of_everything_ends_by_itself(world: World) -> None:
    """S-13: a freeze of everything ends at its `until`; a freeze of another project has no effect here."""
    world.create(overlap="allow")
    holds.freeze(world.database, world.observations, "other", None, ANN)
    live_through(world, 1)
    assert minutes(world) == [1]
    holds.freeze(world.database, world.observations, None, world.start + timedelta(minutes=3, seconds=30), ANN)
    live_through(world, 2)
    assert minutes(world) == [1]
    live_through(world, 1)
    assert minutes(world) == [1, 4]


def test_pending_runs_of_a_frozen_project_are_not_claimed(world: World) -> None:
    """S-13: also runs that were created before the freeze wait."""
    world.create()
    live_through(world, 1)
    holds.freeze(world.database, world.observations, "acme", None, ANN)
    assert claim(world) == 0
    holds.unfreeze(world.database, world.observations, "acme", ANN)
    assert claim(world) == 1


def claim(world: World) -> int:
    return len(world.claim(limit=10, max_running=10))


def test_a_manual_fire_is_refused_with_reason_and_end(world: World) -> None:
    """S-13: the refusal tells who froze the project, why and until when."""
    world.create()
    holds.freeze(world.database, world.observations, "acme", world.start + timedelta(hours=1), ANN)
    frozen = "acme is frozen until 2026-03-02T09:00:00Z by ann, so nothing is started: maintenance"
    with pytest.raises(Conflict, match=frozen) as refused:
        world.fire(key("tick"), None, Caller("bob"))
    assert "unfreeze" in refused.value.errors[0].hint


def black_out(world: World, mode: str, begins: int, ends: int, **scope: Any) -> str:
    start = world.start
    hold = holds.start_blackout(
        world.database,
        world.observations,
        BlackoutScope(**(scope or {"project": "acme"})),
        start + timedelta(minutes=begins),
        start + timedelta(minutes=ends),
        mode,
        ANN,
    )
    return hold.hold_id


@pytest.mark.parametrize(
    ("mode", "ran", "left"),
    [("drop", [1, 5], [("blackout", 3)]), ("one", [1, 4, 5], [("blackout", 2)]), ("defer", [1, 2, 3, 4, 5], [])],
)
def test_a_blackout_drops_keeps_one_or_defers(
    world: World, mode: str, ran: list[int], left: list[tuple[str, int | None]]
) -> None:
    """S-13: nothing starts in a blackout; at its end its occurrences are dropped, or the newest or all start."""
    world.create(overlap="allow")
    black_out(world, mode, 2, 5)
    live_through(world, 4)
    assert minutes(world) == [1]
    live_through(world, 1)
    world.loop.due([world.id("tick")])
    assert (minutes(world), skipped(world)) == (ran, left)


@pytest.mark.parametrize(
    ("mode", "policy", "ran", "left"),
    [
        ("drop", "latest", [1, 61], [("blackout", 3), ("missed", 56)]),
        ("one", "latest", [1, 61], [("missed", 3), ("missed", 56)]),
        ("defer", "none", [1, 61], [("missed", 3), ("missed", 56)]),
        ("drop", "all", [1, *range(5, 62)], [("blackout", 3)]),
        ("one", "all", [1, *range(4, 62)], [("blackout", 2)]),
        ("defer", "all", [*range(1, 62)], []),
    ],
)
def test_a_blackout_that_was_over_long_ago_leaves_the_rest_to_the_policy(
    world: World, mode: str, policy: str, ran: list[int], left: list[tuple[str, int | None]]
) -> None:
    """S-13: a loop that was down until long after the end decides each occurrence once, by mode and catch-up policy."""
    world.create(overlap="allow", catchup={"policy": policy})
    live_through(world, 1)
    black_out(world, mode, 2, 5)
    world.advance(hours=1)
    for _ in range(4):
        world.resync()
    assert (minutes(world), skipped(world)) == (ran, left)


def test_a_backlog_waits_for_the_end_of_a_blackout(world: World) -> None:
    """S-13: occurrences of a backlog do not start in a blackout either."""
    world.create(overlap="allow", catchup={"policy": "all"})
    world.advance(minutes=10)
    black_out(world, "defer", 10, 12)
    world.resync()
    assert minutes(world) == []
    world.advance(minutes=2)
    for _ in range(3):
        world.resync()
    assert minutes(world) == list(range(1, 13))


def test_a_blackout_covers_a_tag_or_one_trigger(world: World) -> None:
    """S-13: other triggers go on."""
    world.create("tagged", tags=["client-7"], overlap="allow")
    world.create("named", overlap="allow")
    world.create("other", overlap="allow")
    black_out(world, "drop", 1, 3, project="acme", tag="client-7")
    black_out(world, "drop", 1, 3, trigger=key("named"))
    live_through(world, 2)
    assert [minutes(world, name) for name in ("tagged", "named", "other")] == [[], [], [1, 2]]


def test_a_blackout_can_be_ended_early(world: World) -> None:
    """S-13: the triggers that it held are decided again at once."""
    world.create(overlap="allow")
    hold = black_out(world, "defer", 1, 600)
    live_through(world, 2)
    world.advance(seconds=30)
    world.resync()
    assert minutes(world) == []
    holds.end_blackout(world.database, world.observations, hold, ANN)
    live_through(world, 1)
    world.resync()
    assert minutes(world) == [1, 2, 3]
    with pytest.raises(Conflict, match="was over"):
        holds.end_blackout(world.database, world.observations, hold, ANN)


def test_the_stricter_of_two_overlapping_blackouts_decides(world: World) -> None:
    """S-13: nothing starts before both are over, and the stricter mode decides what both cover."""
    world.create(overlap="allow")
    black_out(world, "defer", 1, 4)
    black_out(world, "drop", 3, 6)
    live_through(world, 5)
    assert minutes(world) == []
    live_through(world, 1)
    world.resync()
    assert (minutes(world), skipped(world)) == ([1, 2, 6], [("blackout", 1), ("blackout", 2)])


def test_impossible_holds_are_refused(world: World) -> None:
    """S-13: a hold needs a reason and an end in the future; a freeze that does not exist cannot be ended."""
    now = world.start
    with pytest.raises(Invalid, match="reason: is missing"):
        holds.freeze(world.database, world.observations, "acme", None, Caller("ann"))
    with pytest.raises(Invalid, match="is past"):
        holds.freeze(world.database, world.observations, "acme", now, ANN)
    with pytest.raises(Invalid, match="is not known"):
        holds.start_blackout(
            world.database, world.observations, BlackoutScope("acme"), None, now + timedelta(hours=1), "later", ANN
        )
    with pytest.raises(NotFound, match="there is no freeze of project acme"):
        holds.unfreeze(world.database, world.observations, "acme", ANN)
    with pytest.raises(NotFound, match="there is no trigger"):
        holds.start_blackout(
            world.database,
            world.observations,
            BlackoutScope(trigger=key("none")),
            None,
            now + timedelta(hours=1),
            "drop",
            ANN,
        )
