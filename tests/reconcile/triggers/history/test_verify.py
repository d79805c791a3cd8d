"""Verify histories and rebuild current tables after somebody with full access to the database tampered with them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from reconcile.triggers.history.rebuild import compare_tables, rebuild_tables
from reconcile.triggers.history.verify import Report, sign_checkpoint, verify_histories
from revisions.errors import Conflict, NotFound
from revisions.history import checkpoints
from revisions.history.chain_breaks import BreakKind, ChainBreak
from revisions.history.checkpoints import Checkpoint, PrivateKey
from revisions.store import history_rows, schema, tables
from revisions.store.database import Database
from tests import tampering
from tests.world import World, key

KEY = PrivateKey.fresh()


@pytest.fixture
def lived(world: World) -> World:
    """A trigger with five revisions, each a minute after the other."""
    world.create(description="first")
    world.advance(minutes=1)
    world.deactivate("tick", 1, reason="quiet")
    world.advance(minutes=1)
    world.update("tick", 2, description="second")
    world.advance(minutes=1)
    world.activate("tick", 3)
    world.advance(minutes=1)
    world.update("tick", 4, description="third")
    return world


def verify(world: World, checkpoint: Checkpoint | None = None, name: str | None = None) -> Report:
    return verify_histories(world.database, key(name) if name else None, checkpoint)


def first(world: World, checkpoint: Checkpoint | None = None) -> ChainBreak:
    report = verify(world, checkpoint)
    assert not report.is_sound
    return report.breaks[0]


def checkpoint_of(world: World) -> Checkpoint:
    return checkpoints.read(sign_checkpoint(world.database, KEY), KEY.public)


def test_histories_made_by_the_product_are_sound(lived: World) -> None:
    """R-10, R-11: creating, pausing, deleting and creating again leave sound chains, and nothing to rebuild."""
    lived.create("other", tags=['ä\n"x"'])
    lived.delete("other", 1)
    lived.create("other")
    lived.register("v2")
    lived.update("tick", 5, task_version="v2")
    before = checkpoint_of(lived)
    lived.delete("tick", 6)
    report = verify(lived, before)
    assert report.is_sound, report.breaks
    assert (report.triggers, report.revisions) == (2, 10)
    assert verify(lived, name="other").revisions == 3
    assert compare_tables(lived.database).differences == []


def test_the_size_of_pages_does_not_matter(lived: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-10: the result does not depend on where pages end, and progress is reported after each page."""
    for number in range(5):
        lived.create(f"t{number}")
    reported: list[tuple[int, int]] = []
    for size in (1, 2, 3, 5, 10):
        monkeypatch.setattr(history_rows, "PAGE", size)
        reported.clear()
        report = verify_histories(lived.database, progress=lambda done, total: reported.append((done, total)))
        assert (report.is_sound, report.triggers, report.revisions) == (True, 6, 10)
        assert reported[-1] == (10, 10)


ATTACKS: dict[str, tuple[Callable[[Database], Any], BreakKind, int]] = {
    "edited spec": (
        lambda database: tampering.edit(database, 3, spec='{"schedule":{"every":"1m"},"task_version":"v1"}'),
        BreakKind.CONTENT,
        3,
    ),
    "edited actor": (lambda database: tampering.edit(database, 2, actor="mallory"), BreakKind.CONTENT, 2),
    "edited reason of the first": (lambda database: tampering.edit(database, 1, reason="x"), BreakKind.CONTENT, 1),
    "edited hash": (lambda database: tampering.edit(database, 5, hash="0" * 64), BreakKind.CONTENT, 5),
    "edited link": (lambda database: tampering.edit(database, 4, previous_hash="0" * 64), BreakKind.PREVIOUS, 4),
    "text that is no JSON": (lambda database: tampering.edit(database, 5, tags="x"), BreakKind.CONTENT, 5),
    "removed row": (lambda database: tampering.remove(database, 3), BreakKind.NUMBER, 3),
    "removed first row": (lambda database: tampering.remove(database, 1), BreakKind.NUMBER, 1),
    "all rows removed": (lambda database: tampering.remove(database, 1, 2, 3, 4, 5), BreakKind.NUMBER, 1),
    "swapped order": (lambda database: tampering.swap(database, 3, 4), BreakKind.PREVIOUS, 3),
    "row slipped in": (tampering.slip_in, BreakKind.CURRENT, 6),
    "row slipped in unchained": (lambda database: tampering.slip_in(database, chained=False), BreakKind.PREVIOUS, 6),
    "tail cut": (lambda database: tampering.remove(database, 5), BreakKind.CURRENT, 4),
    "current spec edited": (
        lambda database: tampering.execute(database, "UPDATE triggers SET spec = replace(spec, 'third', 'fourth')"),
        BreakKind.CURRENT,
        5,
    ),
    "current row activated": (
        lambda database: tampering.execute(database, "UPDATE triggers SET active = NOT active"),
        BreakKind.CURRENT,
        5,
    ),
    "current task version edited": (
        lambda database: tampering.execute(database, "UPDATE triggers SET task_version = 'v9'"),
        BreakKind.CURRENT,
        5,
    ),
    "current row removed": (lambda database: tampering.execute(database, "DELETE FROM triggers"), BreakKind.CURRENT, 5),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_tampering_with_a_history_is_found(lived: World, attack: str) -> None:
    """R-10: trigger, revision and kind of the first break are reported, without a checkpoint."""
    act, what, revision = ATTACKS[attack]
    lived.create("untouched")
    untouched = lived.id("untouched")
    if attack != "edited spec":  # the attacks below are on every trigger with that revision number
        tampering.make_vanish(lived.database, untouched)
    act(lived.database)
    found = first(lived)
    assert (found.key, found.what, found.revision) == (key("tick"), what, revision)
    assert verify(lived).broken == 1
    assert verify(lived, name="tick").breaks == verify(lived).breaks
    assert found.message


def test_a_field_of_the_current_row_is_named(lived: World) -> None:
    """R-10: a wrong current row is reported with the field, its right value and its actual value."""
    tampering.execute(lived.database, "UPDATE triggers SET changed_by = 'mallory'")
    found = first(lived)
    assert (found.field, found.expected, found.found) == ("changed_by", "ann", "mallory")


def test_only_a_checkpoint_finds_a_forged_history(lived: World) -> None:
    """R-10: when all hashes were computed anew, only the signed head shows that it is another history."""
    before = checkpoint_of(lived)
    tampering.make_again(lived.database, actor="mallory")
    assert verify(lived).is_sound
    found = first(lived, before)
    assert (found.key, found.what, found.revision) == (key("tick"), BreakKind.CHECKPOINT, 5)
    assert verify(lived, before, "tick").breaks == [found]


def test_only_a_checkpoint_finds_a_cut_tail(lived: World) -> None:
    """R-10: the newest revisions and all rows that refer to them are gone; the first missing one is reported."""
    before = checkpoint_of(lived)
    tampering.cut_tail(lived.database, 1)
    assert verify(lived).is_sound
    found = first(lived, before)
    assert (found.key, found.what, found.revision, found.found) == (key("tick"), BreakKind.CHECKPOINT, 2, None)


def test_only_a_checkpoint_finds_a_vanished_trigger(lived: World) -> None:
    """R-10: a trigger of which no row is left is reported, also when it is verified alone."""
    before = checkpoint_of(lived)
    tampering.make_vanish(lived.database, lived.id("tick"))
    assert verify(lived).is_sound
    found = first(lived, before)
    assert (found.key, found.what, found.revision) == (key("tick"), BreakKind.CHECKPOINT, 5)
    assert verify(lived, before, "tick").breaks == [found]
    with pytest.raises(NotFound):
        verify(lived, name="tick")


def test_a_checkpoint_stays_valid_as_the_history_goes_on(lived: World) -> None:
    """R-10: new triggers and revisions do not contradict an older checkpoint."""
    before = checkpoint_of(lived)
    lived.create("later")
    lived.delete("tick", 5)
    assert verify(lived, before).is_sound


def test_missing_guards_are_reported(lived: World) -> None:
    """R-02, R-10: `verify` reports missing database guards, without which a sound history can be changed."""
    with lived.database.write() as connection:
        schema.drop_guards(connection, "trigger_revisions")
    report = verify(lived)
    assert (report.broken, report.is_sound, len(report.guards_missing)) == (0, False, 3 if _is_sqlite(lived) else 2)


def test_deploys_go_on_while_it_verifies(lived: World) -> None:
    """R-10: one state of the database is read; a deploy in between neither waits nor is included."""
    other = World(lived.database, lived.clock)

    def deploy(done: int, total: int) -> None:
        other.update("tick", 5, description="meanwhile")

    report = verify_histories(lived.database, progress=deploy)
    assert (report.is_sound, report.revisions) == (True, 5)
    assert verify(lived).revisions == 6


DAMAGE = {
    "current spec": ("UPDATE triggers SET spec = replace(spec, 'third', 'fourth')", "triggers", "spec"),
    "activation": ("UPDATE triggers SET active = NOT active", "triggers", "active"),
    "task version": ("UPDATE triggers SET task_version = 'v9'", "triggers", "task_version"),
    "automation": ("UPDATE triggers SET automation = '{}'", "triggers", "automation"),
    "deletion": ("UPDATE triggers SET deleted = NOT deleted", "triggers", "deleted"),
    "name": ("UPDATE triggers SET name = 'tack'", "triggers", "name"),
    "missing row": ("DELETE FROM triggers", "triggers", None),
    "status": ("UPDATE trigger_status SET revision = 4", "trigger_status", "revision"),
    "missing status": ("DELETE FROM trigger_status", "trigger_status", "revision"),
    "total": ("UPDATE tasks SET total_triggers = 7", "tasks", "total_triggers"),
    "active": ("UPDATE tasks SET active_triggers = 7", "tasks", "active_triggers"),
    "only name": ("UPDATE tasks SET trigger_name = 'tack'", "tasks", "trigger_name"),
    "only automation": ("UPDATE tasks SET trigger_automation = NULL", "tasks", "trigger_automation"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_rebuild_restores_the_current_tables(lived: World, damage: str) -> None:
    """R-11: a comparison shows each field that differs; a rebuild restores the tables exactly."""
    statement, table, field = DAMAGE[damage]
    before = _derived(lived)
    tampering.execute(lived.database, statement)
    shown = compare_tables(lived.database)
    assert (table, field) in [(one.table, one.field) for one in shown.differences]
    assert _derived(lived) != before
    applied = rebuild_tables(lived.database, lived.observations, "ann")
    assert applied.differences == shown.differences
    assert _derived(lived) == before
    assert compare_tables(lived.database).differences == []
    assert verify(lived).is_sound
    assert len(lived.history()) == 5


def test_a_rebuild_removes_a_row_without_revisions(lived: World) -> None:
    """R-11: a row that follows from no revision does not exist after a rebuild."""
    before = _derived(lived)
    lived.create("ghost")
    with tampering.unguarded(lived.database) as connection:
        ghost = tables.trigger_revisions.c.trigger_id == lived.id("ghost")
        connection.execute(tables.trigger_revisions.delete().where(ghost))
    applied = rebuild_tables(lived.database, lived.observations, "ann")
    assert ("triggers", None) in [(one.table, one.field) for one in applied.differences]
    assert _derived(lived) == before


def test_a_rebuild_restores_swapped_names(lived: World) -> None:
    """R-11: all wrong rows are removed before any is inserted, so that unique names do not collide."""
    lived.create("tock")
    before = _derived(lived)
    for name, other in (("tick", "x"), ("tock", "tick"), ("x", "tock")):
        tampering.execute(lived.database, f"UPDATE triggers SET name = '{other}' WHERE name = '{name}'")
    rebuild_tables(lived.database, lived.observations, "ann")
    assert _derived(lived) == before


def test_a_broken_history_is_not_rebuilt(lived: World) -> None:
    """R-11: a rebuild from edited revisions would make the edit valid; it is refused with the break."""
    tampering.edit(lived.database, 3, actor="mallory")
    before = _derived(lived)
    assert [one.revision for one in compare_tables(lived.database).breaks] == [3]
    with pytest.raises(Conflict, match="revision 3"):
        rebuild_tables(lived.database, lived.observations, "ann")
    assert _derived(lived) == before


def test_the_loop_goes_on_after_a_rebuild(lived: World) -> None:
    """R-11, L-03: a trigger whose row was wrong is decided from the watermark it had."""
    lived.resync()
    watermark = lived.status().watermark
    tampering.execute(lived.database, "UPDATE triggers SET active = NOT active")
    rebuild_tables(lived.database, lived.observations, "ann")
    assert lived.status().watermark == watermark
    lived.advance(minutes=1)
    lived.resync()
    assert lived.skips()[-1].scheduled_at == lived.start + timedelta(minutes=5)


def _derived(world: World) -> list[Any]:
    """Return the rows that are derived from revisions."""
    summary = (tables.tasks.c.total_triggers, tables.tasks.c.active_triggers, tables.tasks.c.trigger_name)
    with world.database.read() as connection:
        return [
            connection.execute(select(tables.triggers).order_by(tables.triggers.c.trigger_id)).all(),
            connection.execute(select(*summary, tables.tasks.c.trigger_automation)).all(),
            sorted(history_rows.status_revisions(connection).items()),
        ]


def _is_sqlite(world: World) -> bool:
    return world.database.is_sqlite
