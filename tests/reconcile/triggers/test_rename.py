"""Rename a trigger, which keeps its identity."""

import pytest

from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.triggers.append import Changed
from reconcile.triggers.deploy import rename_trigger
from revisions.errors import Conflict, Invalid, NotFound, PreconditionFailed, PreconditionRequired
from revisions.history import chain
from revisions.history.triggers import Action, fold
from revisions.store import tasks
from revisions.store import triggers as store
from tests.races.crowd import at_once
from tests.world import World, key

WHO = Caller("bob")


def rename(world: World, name: str, new: str, at: int | None, caller: Caller = WHO) -> Changed:
    return rename_trigger(world.database, world.observations, key(name), new, Expected(revision=at), caller)


def test_a_rename_keeps_history_watermark_and_runs(world: World) -> None:
    """R-22: a rename is one DEPLOY under the new name; the schedule goes on unchanged."""
    world.create(tags=["a"], overlap="allow")
    world.advance(seconds=150)
    world.resync()
    before = (world.status(), world.runs(), world.id("tick"))
    made = rename(world, "tick", "tock", 1)
    assert (made.changed, made.created, made.before, made.trigger.revision) == (True, False, 1, 2)
    newest, first = world.history("tock")
    assert (newest.action, newest.reason, newest.actor) == (Action.DEPLOY, "renamed from tick", "bob")
    assert (newest.key, first.key) == (key("tock"), key("tick"))
    assert (newest.spec, newest.tags, newest.active) == (first.spec, first.tags, first.active)
    status, runs, trigger_id = before
    after = world.status("tock")
    assert (after.watermark, after.next_fire_at, after.run_count) == (
        status.watermark,
        status.next_fire_at,
        status.run_count,
    )
    assert (world.runs("tock"), world.id("tock")) == (runs, trigger_id)
    world.advance(minutes=1)
    world.resync()
    assert len(world.runs("tock")) == len(runs) + 1


def test_a_renamed_trigger_is_still_the_fold_of_its_chain(world: World) -> None:
    """R-03, R-10, R-12: chain, current row and the summary of the task are right afterwards."""
    world.create()
    rename(world, "tick", "tock", 1, Caller("bob", "clearer"))
    history = world.history("tock")
    assert history[0].reason == "clearer"
    assert [chain.link(revision) for revision in history] == [revision.hash for revision in history]
    with world.database.read() as connection:
        assert store.get(connection, key("tick")) is None
        assert store.get(connection, key("tock")) == fold(reversed(history))
        (task,) = tasks.page(connection, None, 10)
    assert (task.trigger_name, task.total_triggers) == ("tock", 1)


@pytest.mark.parametrize("holder", ["live", "deleted"])
def test_a_name_that_is_held_is_a_conflict(world: World, holder: str) -> None:
    """R-22: also a deleted trigger holds its name, because its history would otherwise be lost."""
    world.create("tick")
    world.create("tock")
    if holder == "deleted":
        world.delete("tock", 1)
    with pytest.raises(Conflict, match=f"held by a {holder} trigger"):
        rename(world, "tick", "tock", 1)
    assert len(world.history("tick")) == 1


def test_one_of_many_concurrent_renames_gets_the_name(world: World) -> None:
    """R-22, R-07: of renames and a creation at once, one gets the name, the others are refused and change nothing."""
    names = [f"tick-{number}" for number in range(8)]
    for name in names:
        world.create(name)
    calls = [lambda name=name: rename(world, name, "tock", 1) for name in names]
    answers = at_once([*calls, lambda: world.create("tock")])
    assert sum(isinstance(answer, Changed) for answer in answers) == 1
    assert {type(answer) for answer in answers} <= {Changed, Conflict, PreconditionFailed}
    with world.database.read() as connection:
        kept = [name for name in names if store.get(connection, key(name))]
        holder = store.get(connection, key("tock"))
    assert holder is not None
    assert len(kept) == (7 if holder.revision == 2 else 8)


def test_two_triggers_cannot_swap_their_names_at_once(world: World) -> None:
    """R-22: neither name is free, so both renames are refused, without a deadlock."""
    world.create("tick")
    world.create("tock")
    answers = at_once([lambda: rename(world, "tick", "tock", 1), lambda: rename(world, "tock", "tick", 1)])
    assert {type(answer) for answer in answers} == {Conflict}


def test_the_old_name_is_free_again(world: World) -> None:
    """R-22: a new trigger may use it, with a history of its own; when that is renamed, the first may take it back."""
    world.create("tick")
    rename(world, "tick", "tock", 1)
    other = world.create("tick").trigger
    assert (other.revision, other.trigger_id != world.id("tock")) == (1, True)
    rename(world, "tick", "tack", 1)
    rename(world, "tock", "tick", 2)
    assert [revision.key.name for revision in world.history("tick")] == ["tick", "tock", "tick"]


def test_a_pause_outlasts_a_rename(world: World) -> None:
    """R-20: reason and end of a pause stay."""
    until = world.clock_now().replace(hour=23)
    world.create()
    world.deactivate("tick", 1, "holiday", until=until)
    after = rename(world, "tick", "tock", 2).trigger
    assert (after.active, after.until, after.deactivated_reason) == (False, until, "holiday")


def test_impossible_renames_are_refused(world: World) -> None:
    """R-01, R-04: for a wrong name, a missing or stale revision, and a deleted or unknown trigger."""
    world.create()
    with pytest.raises(Invalid):
        rename(world, "tick", "Tock", 1)
    with pytest.raises(PreconditionRequired, match="stands at revision 1"):
        rename(world, "tick", "tock", None)
    with pytest.raises(PreconditionFailed):
        rename(world, "tick", "tock", 7)
    assert not rename(world, "tick", "tick", 1).changed
    with pytest.raises(NotFound):
        rename(world, "none", "tock", 1)
    world.delete("tick", 1)
    with pytest.raises(NotFound):
        rename(world, "tick", "tock", 2)
