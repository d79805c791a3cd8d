"""Roll back: deploy an earlier revision again as a new one."""

import json
from typing import Any

import pytest

from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.triggers.activation import delete_trigger
from reconcile.triggers.append import Changed
from reconcile.triggers.deploy import deploy_trigger, rename_trigger, rollback_trigger
from reconcile.triggers.tasks import delete_task
from revisions.errors import Conflict, Invalid, NotFound, PreconditionFailed, PreconditionRequired
from revisions.history.triggers import Action
from revisions.spec.trigger import TriggerManifest
from tests.world import World, key, trigger_document

WHO = Caller("bob")


def rollback(world: World, to: int, at: int | None, caller: Caller = WHO) -> Changed:
    return rollback_trigger(world.database, world.observations, key("tick"), to, Expected(revision=at), caller)


def test_a_rollback_is_a_new_deploy_whose_reason_names_the_revision(world: World) -> None:
    """R-09: spec and tags of revision N become a new DEPLOY; its reason names N and has the caller's reason."""
    world.create(tags=["a"], description="first")
    world.update("tick", 1, tags=["b"], description="second")
    back = rollback(world, 1, 2)
    assert (back.changed, back.before, back.trigger.revision) == (True, 2, 3)
    newest, _, first = world.history()
    assert (newest.action, newest.actor, newest.reason) == (Action.DEPLOY, "bob", "rollback to revision 1")
    assert (newest.spec, newest.tags) == (first.spec, ("a",))
    rollback(world, 2, 3, Caller("bob", "the report was empty"))
    assert world.history()[0].reason == "rollback to revision 2: the report was empty"


def test_a_rollback_to_the_current_spec_appends_nothing(world: World) -> None:
    """R-06: to the newest revision, or to one with the same spec and tags."""
    world.create()
    world.update("tick", 1, description="x")
    world.update("tick", 2)
    assert not rollback(world, 3, 3).changed
    assert not rollback(world, 1, 3).changed
    assert len(world.history()) == 3


def test_a_rollback_needs_the_revision_last_read(world: World) -> None:
    """R-04: a missing revision is refused with the current one, a stale one is a conflict; nothing changes."""
    world.create()
    world.update("tick", 1, description="x")
    with pytest.raises(PreconditionRequired, match="stands at revision 2"):
        rollback(world, 1, None)
    with pytest.raises(PreconditionFailed) as refused:
        rollback(world, 1, 1)
    assert refused.value.current_revision == 2
    with pytest.raises(NotFound, match="no revision 9"):
        rollback(world, 9, 2)
    with pytest.raises(NotFound):
        rollback_trigger(world.database, world.observations, key("none"), 1, Expected(revision=1), WHO)
    assert len(world.history()) == 2


def test_a_rollback_to_a_task_version_that_is_gone_is_refused(world: World) -> None:
    """R-14: a spec that could not be deployed now is refused, with the versions that exist."""
    world.register("v2")
    world.create()
    world.update("tick", 1, task_version="v2")
    delete_task(world.database, world.observations, world.register().task.key, WHO)
    with pytest.raises(Invalid, match="no report v1") as refused:
        rollback(world, 1, 2)
    assert refused.value.errors[0].hint == "registered are v2"
    assert len(world.history()) == 2


def test_a_rollback_to_an_instant_that_is_past_is_refused(world: World) -> None:
    """S-02: a schedule with no fire left cannot be deployed again either."""
    world.create(schedule={"at": "2026-03-02T09:00:00Z"})
    world.update("tick", 1)
    world.advance(hours=2)
    with pytest.raises(Invalid, match="no fire left"):
        rollback(world, 1, 2)


def test_a_rollback_leaves_a_pause_alone(world: World) -> None:
    """R-20: activation stays as it is, whatever it was at the earlier revision."""
    world.create()
    world.update("tick", 1, description="x")
    world.deactivate("tick", 2, "holiday")
    back = rollback(world, 1, 3).trigger
    assert (back.active, back.deactivated_reason) == (False, "holiday")
    world.activate("tick", 4)
    assert rollback(world, 3, 5).trigger.active


@pytest.mark.parametrize("was", ["active", "paused"])
def test_a_rollback_brings_a_deleted_trigger_back_as_it_was(world: World, was: str) -> None:
    """R-05, R-22: numbering goes on, it counts as a creation, has a new baseline, and is active if it was then."""
    world.create(description="x")
    if was == "paused":
        world.deactivate("tick", 1)
    last = len(world.history())
    world.delete("tick", last)
    world.advance(hours=1)
    back = rollback(world, last, last + 1)
    assert (back.created, back.trigger.deleted, back.trigger.revision) == (True, False, last + 2)
    assert back.trigger.active == (was == "active")
    assert world.status().watermark == world.clock_now()
    world.resync()
    assert world.runs() == []


def test_a_prune_is_undone_by_a_rollback(world: World) -> None:
    """R-22: a trigger that `apply --prune` deleted comes back with its origin, so the folder still owns it."""
    deploy_trigger(
        world.database,
        world.observations,
        TriggerManifest.read(trigger_document()),
        Expected(absent=True),
        WHO,
        origin="reports",
    )
    delete_trigger(
        world.database, world.observations, key("tick"), Expected(revision=1), Caller("ci", "pruned by reports")
    )
    back = rollback(world, 1, 2).trigger
    assert (back.deleted, back.active, back.origin) == (False, True, "reports")


def test_a_retry_of_a_rollback_is_recognised_by_its_key(world: World) -> None:
    """R-04: the same key and revision answer what it made; the same key for another revision is a conflict."""
    world.create()
    world.update("tick", 1, description="x")
    world.update("tick", 2)
    world.update("tick", 3, description="y")
    again = Caller("bob", idempotency_key="k")
    assert rollback(world, 1, 4, again).trigger.revision == 5
    assert rollback(world, 1, 4, again).trigger.revision == 5
    with pytest.raises(Conflict):
        rollback(world, 3, 4, again)
    assert len(world.history()) == 5


def test_a_rollback_across_a_rename_keeps_the_name(world: World) -> None:
    """R-22: a rollback does not restore an earlier name."""
    world.create(description="first")
    world.update("tick", 1, description="second")
    rename_trigger(world.database, world.observations, key("tick"), "tock", Expected(revision=2), WHO)
    back = rollback_trigger(world.database, world.observations, key("tock"), 1, Expected(revision=3), WHO).trigger
    spec: dict[str, Any] = json.loads(back.spec)
    assert (back.key.name, spec["description"]) == ("tock", "first")
