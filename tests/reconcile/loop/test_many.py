"""Large numbers of triggers, and fires far ahead (L-03, L-05)."""

from datetime import timedelta

from sqlalchemy import insert, select

from benchmarks.crowd import QUIET, gather, loop_over
from reconcile.observations.passes import PassDecided
from revisions.store.database import Database
from revisions.store.tables import trigger_revisions, trigger_status, triggers
from tests.observing import only
from tests.world import World


def multiply(world: World, number: int) -> None:
    """Copy `tick` until there are `number` triggers."""
    with world.database.write() as connection:
        for table in (triggers, trigger_status, trigger_revisions):
            first = dict(connection.execute(select(table)).one()._mapping)
            copies = [
                {"trigger_id": f"{n:026}"} | ({"name": f"t{n}"} if "name" in first else {}) for n in range(1, number)
            ]
            connection.execute(insert(table), [first | copy for copy in copies])


def test_all_of_10001_triggers_fire(world: World) -> None:
    """L-03: no limit leaves active triggers without a job."""
    world.create(overlap="allow")
    multiply(world, 10_001)
    world.resync()
    assert len(world.loop.timers.jobs()) == 10_001
    assert not world.loop.resync()
    world.advance(minutes=1)
    started = world.loop.due(sorted(world.loop.timers.jobs()))
    assert started == 10_001


def test_one_resync_decides_all_overdue_triggers(world: World) -> None:
    """L-03: also when more alarms are lost than fit into one batch."""
    world.create(overlap="allow")
    multiply(world, 1_201)
    world.resync()
    world.advance(minutes=1)
    world.resync()
    assert sum(decided.started for decided in only(PassDecided, world.observed)) == 1_201


def test_a_hundred_thousand_triggers_have_jobs(postgresql_database_url: str) -> None:
    """L-03: after one resync each of 100,000 active triggers has an alarm."""
    with Database(postgresql_database_url) as database:
        gather(database, 100_000, **QUIET)
        loop = loop_over(database)
        assert len(loop.resync().added) == 100_000
        assert len(loop.timers.jobs()) == 100_000


def test_a_fire_in_three_years_does_not_start_now(world: World) -> None:
    """L-05: an alarm farther ahead than the timers allow goes off early; nothing starts before its time."""
    at = world.start + timedelta(days=3 * 365)
    world.create(schedule={"at": f"{at:%Y-%m-%dT%H:%M:%SZ}"})
    world.create("yearly", schedule={"cron": "0 9 2 3 *", "start": f"{at:%Y-%m-%dT%H:%M:%SZ}"})
    world.resync()
    ids = [world.id("tick"), world.id("yearly")]
    assert world.loop.due(ids) == 0
    for trigger_id in ids:
        assert world.loop.timers.next_alarm(trigger_id) is not None
    world.advance(days=3 * 365 - 1)
    world.resync()
    assert (world.runs(), world.runs("yearly")) == ([], [])
    world.advance(days=1)
    world.resync()
    assert [run.scheduled_at for run in world.runs()] == [at]
