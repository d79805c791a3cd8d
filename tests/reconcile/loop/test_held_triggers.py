"""Passes over triggers that a freeze holds."""

from datetime import timedelta

from reconcile.decide.authority import Caller
from reconcile.triggers.holds import BlackoutScope, freeze, start_blackout, unfreeze
from tests.world import World, key


def test_a_freeze_comes_before_a_blackout(world: World) -> None:
    """S-13: while a project is frozen, nothing is decided of a blackout of its trigger, nor is it planned anew."""
    world.create(schedule={"every": "10m"}, overlap="allow")
    end_of_blackout = world.start + timedelta(minutes=55)
    scope, ann = BlackoutScope(trigger=key("tick")), Caller("ann", "move")
    start_blackout(world.database, world.observations, scope, None, end_of_blackout, "drop", ann)
    freeze(world.database, world.observations, "acme", None, Caller("ann", "incident"))
    before = world.status()
    world.advance(minutes=15)
    world.loop.due([world.id("tick")])
    assert world.status() == before
    world.advance(minutes=45)
    world.resync()
    world.loop.due([world.id("tick")])
    assert (world.runs(), world.skips()) == ([], [])
    unfreeze(world.database, world.observations, "acme", Caller("ann"))
    world.resync()
    assert [run.scheduled_at for run in world.runs()] == [world.start + timedelta(hours=1)]
    assert [(skip.outcome, skip.count) for skip in world.skips()] == [("blackout", 5)]
