"""`up --baseline now` after the restore of a backup: the time since the backup is recorded, not fired (O-07)."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from reconcile.decide.admission import Pace
from reconcile.loop.restore import LOST, declare_baseline
from reconcile.observations.specs import BaselineDeclared
from reconcile.queries.audit import audit_faults
from revisions.errors import Conflict
from revisions.outcomes import RunStatus
from revisions.store import revisions
from tests.waiting import eventually
from tests.world import World, key

ALL: dict[str, Any] = {"catchup": {"policy": "all"}, "overlap": "allow"}
INTERVAL = Pace().resync_interval
MINUTE = timedelta(minutes=1)


def restore(world: World) -> BaselineDeclared:
    return declare_baseline(world.database, world.observations, INTERVAL)


def skipped(world: World, name: str = "tick") -> list[tuple[str, str, int, int, int | None]]:
    """Return outcome, reason, first minute, last minute and count of each skip."""
    return [
        (
            skip.outcome,
            skip.reason,
            (skip.scheduled_at - world.start) // MINUTE,
            (skip.scheduled_until - world.start) // MINUTE,
            skip.count,
        )
        for skip in world.skips(name)
    ]


def test_lost_time_is_recorded_and_not_fired(world: World) -> None:
    """O-07, R-21: as one range for each trigger, whatever its catch-up policy. Afterwards triggers fire as usual."""
    world.create(**ALL)
    world.create("hourly", schedule={"every": "1h"})
    world.create("off")
    world.deactivate("off", 1)
    world.advance(minutes=2)
    world.resync()
    world.advance(minutes=10)
    assert restore(world).ranges == 1
    world.resync()
    assert skipped(world) == [("superseded", "restore", 3, 12, 10)]
    assert [len(world.runs(name)) for name in ("tick", "hourly", "off")] == [2, 0, 0]
    world.advance(minutes=1)
    world.resync()
    assert len(world.runs()) == 3
    world.advance(hours=1)
    world.resync()
    assert len(world.runs("hourly")) == 1
    assert [len(world.history(name)) for name in ("tick", "hourly", "off")] == [1, 1, 2]
    assert audit_faults(world.database, Pace().grace, key("tick")) == []


def test_a_restored_backlog_is_superseded(world: World) -> None:
    """O-07: it may have been caught up after the backup."""
    world.create(**ALL)
    world.advance(minutes=30)
    world.another_loop_without_catch_up().resync()
    started = len(world.runs())
    world.advance(minutes=10)
    restore(world)
    world.resync()
    assert len(world.runs()) == started
    assert skipped(world)[-1][:2] == ("superseded", "restore")
    assert audit_faults(world.database, Pace().grace, key("tick")) == []


def test_restored_live_runs_do_not_start_again(world: World) -> None:
    """O-07, X-07: a running one fails without a retry, and a pending one is cancelled."""
    world.create(**ALL | {"retry": {"max_attempts": 5}})
    world.advance(minutes=2)
    world.resync()
    (running,) = world.claim(limit=1)
    world.advance(minutes=10)
    assert restore(world).runs == 2
    by_status = {run.status: run for run in world.runs()}
    assert (by_status[RunStatus.FAILED].id, by_status[RunStatus.FAILED].error) == (running.id, LOST)
    assert by_status[RunStatus.CANCELLED].error == LOST
    assert world.claim() == []


def test_runs_that_fail_by_a_restore_stop_no_trigger(world: World) -> None:
    """O-07, X-07: they are not counted as consecutive failures."""
    world.create(**ALL, deactivate_after=2)
    world.advance(minutes=3)
    world.resync()
    assert len(world.claim(limit=3)) == 3
    world.advance(minutes=10)
    assert restore(world).runs == 3
    world.resync()
    assert world.history()[0].active
    assert world.status().consecutive_failures == 0


def test_a_requested_fire_in_the_lost_time_is_recorded(world: World) -> None:
    """O-07, S-08: one that is still ahead fires."""
    world.create("past", **ALL)
    world.create("ahead", **ALL)
    world.advance(minutes=1)
    world.resync()
    for run in world.claim():
        minutes = 5 if run.trigger_id == world.id("past") else 30
        world.settle(run, next_fire_at=(world.start + minutes * MINUTE).isoformat())
    world.advance(minutes=10)
    restore(world)
    world.resync()
    assert [skip for skip in skipped(world, "past") if skip[2:4] == (5, 5)] == [("superseded", "restore", 5, 5, 1)]
    assert world.status("past").asked_fire_at is None
    assert world.status("ahead").next_fire_at == world.start + 30 * MINUTE
    assert [len(world.runs(name)) for name in ("past", "ahead")] == [1, 1]


def test_a_pause_whose_end_was_in_the_lost_time_ends(world: World) -> None:
    """O-07, R-20: the occurrences between that end and the restore are recorded."""
    world.create(**ALL)
    world.deactivate("tick", 1, until=world.start + 5 * MINUTE)
    world.advance(minutes=10)
    restore(world)
    world.resync()
    assert world.history()[0].active
    assert skipped(world)[-1] == ("superseded", "restore", 6, 10, 5)
    assert world.runs() == []


def test_a_baseline_is_refused_while_replicas_run(world: World) -> None:
    """O-07: a running replica shows that the database was not just restored."""
    world.create(**ALL)
    world.resync()
    with pytest.raises(Conflict, match="not just restored"):
        restore(world)
    world.advance(minutes=2)
    restore(world)


def test_a_baseline_can_be_declared_again(world: World) -> None:
    """O-07, L-11: a second declaration loses nothing and records nothing twice, so a broken one can be repeated."""
    world.create(**ALL)
    world.advance(minutes=10)
    assert (restore(world).ranges, restore(world).ranges) == (1, 0)
    assert skipped(world) == [("superseded", "restore", 1, 10, 10)]


def test_changes_with_transaction_ids_of_another_server_are_read_once(world: World) -> None:
    """O-07, R-17: transaction ids in a dump can be higher than those of the server that it is restored on."""
    if world.database.is_sqlite:
        pytest.skip("SQLite has no transaction ids")
    world.create(**ALL)
    with world.database.write() as connection:
        connection.execute(text("UPDATE trigger_changes SET transaction_id = '99999999999'"))
    world.advance(minutes=10)
    restore(world)
    with world.database.read() as connection:
        first = revisions.read(connection, revisions.BEGINNING, 100)
    assert [change.revision for change in first.items] == [1]
    world.update("tick", 1, description="new", **ALL)
    position = first.position

    def is_past_the_change() -> bool:
        """Return whether the next page leaves the change out; open transactions on the server can repeat it."""
        nonlocal position
        with world.database.read() as connection:
            page = revisions.read(connection, position, 100)
        position = page.position
        return 1 not in [change.revision for change in page.items]

    eventually(is_past_the_change, every=0.05)
