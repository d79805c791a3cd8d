"""What the scanner finds and mends (L-16), and which replicas there are."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import text

from reconcile.decide.admission import Pace
from reconcile.loop import replica as replicas
from reconcile.loop.replica import Replica
from reconcile.observations.passes import (
    DemandExceeded,
    DemandSummed,
    FaultFound,
    FindingKind,
    ReplicasCounted,
    TzdataDiffers,
)
from revisions.ids import TaskKey
from revisions.store import installations, tasks
from revisions.store.tables import trigger_status
from tests.observing import only
from tests.world import World

V1 = TaskKey("acme", "production", "report", "v1")


def found(world: World) -> list[tuple[FindingKind, str]]:
    return [(finding.kind, finding.subject) for finding in world.loop.scan()]


def by_hand(world: World, statement: str, **given: object) -> None:
    """Something happens behind the product's back."""
    with world.database.write() as connection:
        connection.execute(text(statement), given)


def set_by_hand(world: World, **instants: datetime) -> None:
    with world.database.write() as connection:
        connection.execute(trigger_status.update().values(**instants))


def test_a_sound_world_has_no_findings(world: World) -> None:
    """L-16: neither new, nor changed, nor paused, nor busy, nor frozen triggers are findings."""
    for name in ("a", "b", "c"):
        world.create(name, overlap="allow")
    world.resync()
    world.create("new")
    world.update("a", 1, description="changed")
    world.deactivate("b", 1)
    assert found(world) == []
    world.advance(minutes=1)
    world.resync()
    assert found(world) == []


def test_jobs_that_are_not_what_the_database_says_are_mended(world: World) -> None:
    """L-16: a job that is missing, of another revision, or of nothing."""
    for name in ("missing", "older", "sound"):
        world.create(name)
    world.resync()
    timers = world.loop.timers
    timers.remove(world.id("missing"))
    timers.set(world.id("older"), 7, timedelta(days=1))
    timers.set("nobody", 1, timedelta(days=1))
    expected = {
        (FindingKind.JOB, world.id("missing")),
        (FindingKind.JOB, world.id("older")),
        (FindingKind.JOB, "nobody"),
    }
    seen = set(found(world))
    assert (FindingKind.JOB, "nobody") in seen
    assert seen <= expected  # the feed may tell a change again, and then it is the feed that mended its job
    assert timers.jobs() == {world.id(name): 1 for name in ("missing", "older", "sound")}
    assert found(world) == []


def test_an_overdue_occurrence_that_nobody_decided_is_decided(world: World) -> None:
    """L-16: what two intervals and a resync left undecided; a trigger is never enabled, silent and dead."""
    world.create(overlap="allow")
    world.resync()
    world.advance(minutes=1)
    assert found(world) == []
    world.advance(minutes=1)
    assert found(world) == [(FindingKind.OVERDUE, world.id("tick"))]
    assert len(world.runs()) == 1
    assert found(world) == []


def test_a_claim_that_nobody_renews_or_takes_over_is_given_up(world: World) -> None:
    """L-16: with no runner left that would take it over, the attempt counts as lost and the run is pending again."""
    world.create()
    world.advance(minutes=1)
    world.resync()
    world.claim(limit=1, by="gone")
    (run,) = world.runs()
    world.advance(seconds=90)
    world.resync()
    assert (FindingKind.CLAIM, run.id) not in found(world)
    world.advance(seconds=90)
    world.resync()
    assert (FindingKind.CLAIM, run.id) in found(world)
    assert (world.runs()[0].status, world.runs()[0].attempt) == ("pending", 1)


def test_a_summary_that_is_off_is_counted_again(world: World) -> None:
    """L-16: total, active, name and automation of a task version are what its triggers say."""
    world.create()
    by_hand(world, "UPDATE tasks SET total_triggers = 5, trigger_name = NULL")
    assert found(world) == [(FindingKind.SUMMARY, str(V1))]
    with world.database.read() as connection:
        row = tasks.get(connection, V1)
    assert row is not None
    assert (row.total_triggers, row.active_triggers, row.trigger_name) == (1, 1, "tick")


def test_failures_at_the_limit_deactivate(world: World) -> None:
    """L-16: what a kill between settle and deactivation left open is finished."""
    world.create(deactivate_after=3)
    by_hand(world, "UPDATE trigger_status SET consecutive_failures = 3")
    assert found(world) == [(FindingKind.LIMIT, world.id("tick"))]
    newest = world.history()[0]
    assert (newest.active, newest.reason, newest.actor) == (False, "failures", "system")


def test_a_watermark_ahead_is_told_and_left_to_a_person(world: World) -> None:
    """L-12, L-16: found each time until somebody sets it back."""
    world.create()
    world.resync()
    ahead = world.start + timedelta(days=1)
    set_by_hand(world, watermark=ahead)
    assert found(world) == [(FindingKind.WATERMARK, world.id("tick"))]
    assert found(world) == [(FindingKind.WATERMARK, world.id("tick"))]
    told = only(FaultFound, world.observed)
    assert "2026-03-03T08:00:00Z is ahead" in told[0].detail


def test_replicas_are_seen_as_long_as_they_beat(world: World) -> None:
    """L-14: any number may run; one that was not seen for three intervals is not counted, one that stops is gone."""
    interval = timedelta(seconds=30)
    first, second = (Replica(world.database, world.observations, "1.0") for _ in range(2))
    first.beat(interval)
    second.beat(interval)
    assert counted(world) == 2
    world.advance(seconds=91)
    first.beat(interval)
    assert counted(world) == 1
    second.beat(interval)
    assert counted(world) == 2
    second.leave()
    first.beat(interval)
    assert counted(world) == 1


def counted(world: World) -> int:
    return only(ReplicasCounted, world.observed)[-1].number


def test_an_update_of_the_tz_database_plans_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """S-14: the first beat after an update has every trigger's next fire worked out again; a mixture is reported."""
    world.create(schedule={"cron": "0 9 * * *", "timezone": "Europe/Berlin"})
    world.resync()
    planned = world.status().next_fire_at
    assert planned is not None
    set_by_hand(world, next_fire_at=planned + timedelta(hours=1))
    monkeypatch.setattr(replicas, "TZDATA_VERSION", "2027a")
    world.loop = world.another_loop()
    world.resync()
    world.resync()
    assert world.status().next_fire_at == planned
    mixed = [differs.theirs for differs in only(TzdataDiffers, world.observed)]
    assert mixed
    assert "2027a" not in mixed[-1]
    with world.database.read() as connection:
        now = world.clock.now(connection)
        assert {row.tzdata for row in installations.replicas_seen_since(connection, now)} >= {"2027a"}


def test_too_much_asked_is_told_once(world: World) -> None:
    """L-18: the active schedules' mean starts a second, and a warning above 70 % of the rate."""
    for number in range(7):
        world.create(f"t{number}", schedule={"every": "1s"})
    world.create("daily", schedule={"cron": "0 9 * * *"})
    world.create("once", schedule={"at": "2027-01-01T00:00:00Z"})
    world.loop = world.another_loop(Pace(execution_qps=10.0))
    world.resync()
    asked = only(DemandSummed, world.observed)[-1].asked
    assert asked == pytest.approx(7 + 1 / 86_400)
    assert len(only(DemandExceeded, world.observed)) == 1
    world.resync()
    assert len(only(DemandExceeded, world.observed)) == 1
    world.deactivate("t0", 1)
    world.resync()
    asked = only(DemandSummed, world.observed)[-1].asked
    assert asked == pytest.approx(6 + 1 / 86_400)
