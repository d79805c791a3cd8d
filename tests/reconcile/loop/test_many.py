"""Many triggers: none is forgotten, and none fires before its time (L-03)."""

from datetime import timedelta

from sqlalchemy import insert, select

from benchmarks.crowd import QUIET, gather, loop_over
from reconcile.observations.passes import PassDecided
from revisions.store.database import Database
from revisions.store.tables import trigger_revisions, trigger_status, triggers
from tests.observing import only
from tests.world import World


def multiply(world: World, number: int) -> None:
    """So many triggers in all, each a copy of `tick`."""
    with world.database.write() as connection:
        for table in (triggers, trigger_status, trigger_revisions):
            first = dict(connection.execute(select(table)).one()._mapping)
            named = [
                {"trigger_id": f"{n:026}"} | ({"name": f"t{n}"} if "name" in first else {}) for n in range(1, number)
            ]
            connection.execute(insert(table), [first | one for one in named])


def test_there_is_no_silent_limit(world: World) -> None:
    """L-03: 10,001 active triggers are all scheduled, and all of them fire."""
    world.create(overlap="allow")
    multiply(world, 10_001)
    world.resync()
    assert len(world.loop.timers.jobs()) == 10_001
    assert not world.loop.resync()
    world.advance(minutes=1)
    started = world.loop.due(sorted(world.loop.timers.jobs()))
    assert started == 10_001


def test_all_that_are_overdue_are_decided_by_one_resync(world: World) -> None:
    """L-03: also when more alarms are lost than fit into one batch."""
    world.create(overlap="allow")
    multiply(world, 1_201)
    world.resync()
    world.advance(minutes=1)
    world.resync()
    assert sum(decided.started for decided in only(PassDecided, world.observed)) == 1_201


def test_a_hundred_thousand_are_all_scheduled(postgresql_database_url: str) -> None:
    """L-03: 100,000 active triggers each hold an alarm after one resync."""
    with Database(postgresql_database_url) as database:
        gather(database, 100_000, **QUIET)
        loop = loop_over(database)
        assert len(loop.resync().added) == 100_000
        assert len(loop.timers.jobs()) == 100_000


def test_what_is_due_in_three_years_does_not_fire_now(world: World) -> None:
    """L-05: an alarm beyond what any timer can wait for waits, and rings in its year, not before."""
    at = world.start + timedelta(days=3 * 365)
    world.create(schedule={"at": f"{at:%Y-%m-%dT%H:%M:%SZ}"})
    world.create("yearly", schedule={"cron": "0 9 2 3 *", "start": f"{at:%Y-%m-%dT%H:%M:%SZ}"})
    world.resync()
    ids = [world.id("tick"), world.id("yearly")]
    assert world.loop.due(ids) == 0
    for trigger_id in ids:
        ring = world.loop.timers.next_alarm(trigger_id)
        assert ring is not None
    world.advance(days=3 * 365 - 1)
    world.resync()
    assert (world.runs(), world.runs("yearly")) == ([], [])
    world.advance(days=1)
    world.resync()
    assert [run.scheduled_at for run in world.runs()] == [at]
