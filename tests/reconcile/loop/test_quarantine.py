"""Quarantine of triggers that cannot be decided (L-13)."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from reconcile.observations.passes import TriggerQuarantined
from revisions.store import quarantines
from revisions.store import runs as run_store
from revisions.store.quarantines import Quarantine
from tests.observing import only
from tests.world import World


def make_unreadable(world: World, name: str) -> None:
    """Write a spec that this release cannot read, as a newer release might."""
    with world.database.write() as connection:
        changed = "UPDATE triggers SET spec = replace(spec, '\"1m\"', '\"1 fortnight\"') WHERE name = :name"
        connection.execute(text(changed), {"name": name})


def make_readable(world: World, name: str) -> None:
    with world.database.write() as connection:
        changed = "UPDATE triggers SET spec = replace(spec, '\"1 fortnight\"', '\"1m\"') WHERE name = :name"
        connection.execute(text(changed), {"name": name})


def quarantined(world: World) -> list[Quarantine]:
    with world.database.read() as connection:
        return quarantines.every(connection)


def reported(world: World) -> list[TriggerQuarantined]:
    return only(TriggerQuarantined, world.observed)


def test_an_unreadable_trigger_is_quarantined_with_a_backoff(world: World) -> None:
    """L-13: it is retried after 30 s, 60 s, …, an hour at most; the rest of its batch starts at once."""
    for name in ("good", "bad", "fine"):
        world.create(name, overlap="allow")
    make_unreadable(world, "bad")
    world.advance(minutes=1)
    world.loop.resync()
    assert (len(world.runs("good")), len(world.runs("bad")), len(world.runs("fine"))) == (1, 0, 1)
    (quarantine,) = quarantined(world)
    assert quarantine.trigger_id == world.id("bad")
    assert "fortnight" in quarantine.error
    assert str(reported(world)[0].trigger) == "acme/production/report/bad"
    waits = []
    for _ in range(9):
        (quarantine,) = quarantined(world)
        waits.append((quarantine.until_at - world.clock_now()).total_seconds())
        world.advance(seconds=waits[-1] - 1)
        world.loop.resync()
        assert quarantined(world) == [quarantine]
        world.advance(seconds=1)
        world.loop.resync()
    assert waits == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]


def test_a_further_failure_keeps_the_begin_of_a_quarantine(world: World) -> None:
    """L-13: `doctor` shows since when a trigger is not decided, not when that was last tried."""
    world.create("bad")
    make_unreadable(world, "bad")
    world.advance(minutes=1)
    world.loop.resync()
    (first,) = quarantined(world)
    world.advance(seconds=30)
    world.loop.resync()
    (second,) = quarantined(world)
    assert (first.attempts, second.attempts) == (1, 2)
    assert first.since == second.since == world.start + timedelta(minutes=1)


def test_a_repaired_trigger_is_decided_and_leaves_quarantine(world: World) -> None:
    """L-13: after its backoff the trigger is decided as any late one."""
    world.create("bad", overlap="allow")
    make_unreadable(world, "bad")
    world.advance(minutes=1)
    world.loop.resync()
    make_readable(world, "bad")
    world.loop.resync()
    assert world.runs("bad") == []
    world.advance(seconds=30)
    world.loop.resync()
    assert (len(world.runs("bad")), quarantined(world)) == (1, [])


def test_a_batch_that_the_database_refuses_is_halved(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-13: of a batch of nine the trigger whose insert fails is isolated, and the other eight commit."""
    for number in range(9):
        world.create(f"t{number}", overlap="allow")
    poison, create = world.id("t4"), run_store.create

    def refuse(connection: Any, rows: Any) -> int:
        if any(row.trigger_id == poison for row in rows):
            raise ValueError("invalid byte sequence")
        return create(connection, rows)

    monkeypatch.setattr(run_store, "create", refuse)
    world.advance(minutes=1)
    world.loop.resync()
    assert [len(world.runs(f"t{number}")) for number in range(9)] == [1, 1, 1, 1, 0, 1, 1, 1, 1]
    assert [row.trigger_id for row in quarantined(world)] == [poison]


def test_a_backlog_that_cannot_be_drained_does_not_hold_up_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L-13: the catch-up pass isolates the failing trigger too."""
    for name in ("bad", "good"):
        world.create(name, overlap="allow", catchup={"policy": "all"})
    world.loop = world.another_loop_without_catch_up()
    world.advance(minutes=10)
    world.loop.resync()
    poison, create = world.id("bad"), run_store.create

    def refuse(connection: Any, rows: Any) -> int:
        if any(row.trigger_id == poison for row in rows):
            raise ValueError("invalid byte sequence")
        return create(connection, rows)

    monkeypatch.setattr(run_store, "create", refuse)
    world.loop = world.another_loop()
    world.advance(seconds=30)
    world.loop.resync()
    assert len(world.runs("good")) == 10
    assert [row.trigger_id for row in quarantined(world)] == [poison]
    monkeypatch.undo()
    world.advance(seconds=30)
    world.loop.resync()
    assert len(world.runs("bad")) == 11


def test_an_undecidable_trigger_keeps_its_watermark(world: World) -> None:
    """L-11: nothing is recorded of it, so no occurrence is lost."""
    world.create("bad")
    make_unreadable(world, "bad")
    before = world.status("bad").watermark
    world.advance(minutes=10)
    world.loop.resync()
    assert world.skips("bad") == []
    assert world.status("bad").watermark == before


def test_an_unreadable_trigger_can_be_paused_replaced_and_deleted(world: World) -> None:
    """L-13: none of these needs the stored spec."""
    for name in ("paused", "replaced", "deleted"):
        world.create(name)
        make_unreadable(world, name)
    world.advance(minutes=1)
    world.loop.resync()
    assert world.deactivate("paused", 1).changed
    assert world.update("replaced", 1, schedule={"every": "2m"}).changed
    assert world.delete("deleted", 1).changed
    world.advance(minutes=2)
    world.loop.resync()
    assert len(world.runs("replaced")) == 1


def test_an_early_alarm_does_not_retry(world: World) -> None:
    """L-13: however many replicas hold an alarm, there is one retry after each backoff."""
    world.create("bad")
    make_unreadable(world, "bad")
    world.advance(minutes=1)
    world.loop.resync()
    (before,) = quarantined(world)
    world.advance(seconds=10)
    world.loop.due([world.id("bad")])
    world.another_loop().due([world.id("bad")])
    assert quarantined(world) == [before]
