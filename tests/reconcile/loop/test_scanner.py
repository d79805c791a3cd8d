"""Findings of the scanner and their repair (L-16), heartbeats of replicas, and the demand for rate tokens."""

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


def findings(world: World) -> list[tuple[FindingKind, str]]:
    return [(finding.kind, finding.subject) for finding in world.loop.scan()]


def execute_by_hand(world: World, statement: str, **given: object) -> None:
    """Change the database without the product."""
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
    assert findings(world) == []
    world.advance(minutes=1)
    world.resync()
    assert findings(world) == []


def test_jobs_that_differ_from_the_database_are_repaired(world: World) -> None:
    """L-16: a missing job, one of another revision, and one without a trigger."""
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
    seen = set(findings(world))
    assert (FindingKind.JOB, "nobody") in seen
    assert seen <= expected  # the feed may repeat a change, and then reading the feed has repaired its job
    assert timers.jobs() == {world.id(name): 1 for name in ("missing", "older", "sound")}
    assert findings(world) == []


def test_the_scanner_decides_an_overdue_occurrence(world: World) -> None:
    """L-16: one that is undecided after two resync intervals, so that no active trigger stays silent."""
    world.create(overlap="allow")
    world.resync()
    world.advance(minutes=1)
    assert findings(world) == []
    world.advance(minutes=1)
    assert findings(world) == [(FindingKind.OVERDUE, world.id("tick"))]
    assert len(world.runs()) == 1
    assert findings(world) == []


def test_an_expired_claim_without_a_runner_is_given_up(world: World) -> None:
    """L-16: the attempt counts as lost, and the run is pending again."""
    world.create()
    world.advance(minutes=1)
    world.resync()
    world.claim(limit=1, by="gone")
    (run,) = world.runs()
    world.advance(seconds=90)
    world.resync()
    assert (FindingKind.CLAIM, run.id) not in findings(world)
    world.advance(seconds=90)
    world.resync()
    assert (FindingKind.CLAIM, run.id) in findings(world)
    assert (world.runs()[0].status, world.runs()[0].attempt) == ("pending", 1)


def test_a_wrong_summary_of_a_task_is_repaired(world: World) -> None:
    """L-16: numbers, name and automation in the row of a task version are computed from its triggers."""
    world.create()
    execute_by_hand(world, "UPDATE tasks SET total_triggers = 5, trigger_name = NULL")
    assert findings(world) == [(FindingKind.SUMMARY, str(V1))]
    with world.database.read() as connection:
        row = tasks.get(connection, V1)
    assert row is not None
    assert (row.total_triggers, row.active_triggers, row.trigger_name) == (1, 1, "tick")


def test_the_scanner_deactivates_a_trigger_at_its_failure_limit(world: World) -> None:
    """L-16: a crash between the settle and the deactivation leaves such a trigger active."""
    world.create(deactivate_after=3)
    execute_by_hand(world, "UPDATE trigger_status SET consecutive_failures = 3")
    assert findings(world) == [(FindingKind.LIMIT, world.id("tick"))]
    newest = world.history()[0]
    assert (newest.active, newest.reason, newest.actor) == (False, "failures", "system")


def test_a_watermark_in_the_future_is_reported_and_not_repaired(world: World) -> None:
    """L-12, L-16: by each scan, until a person sets it back."""
    world.create()
    world.resync()
    ahead = world.start + timedelta(days=1)
    set_by_hand(world, watermark=ahead)
    assert findings(world) == [(FindingKind.WATERMARK, world.id("tick"))]
    assert findings(world) == [(FindingKind.WATERMARK, world.id("tick"))]
    faults = only(FaultFound, world.observed)
    assert "2026-03-03T08:00:00Z is ahead" in faults[0].detail


def test_replicas_are_counted_while_they_send_heartbeats(world: World) -> None:
    """L-14: a replica without one for three resync intervals is not counted, nor is one that has left."""
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


def test_a_new_tz_database_recomputes_every_next_fire(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """S-14: at the first heartbeat with it. Replicas with different tz databases are reported."""
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


def test_a_demand_above_the_rate_is_warned_of_once(world: World) -> None:
    """L-18: the demand is the mean number of starts a second of all active schedules; the warning begins at 70 %."""
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
