"""Deploys and all other changes that append a revision."""

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.triggers.activation import delete_trigger
from reconcile.triggers.tasks import delete_task
from revisions.errors import Conflict, Invalid, NotFound, PreconditionFailed, PreconditionRequired, TriggerctlError
from revisions.history import chain
from revisions.history.triggers import Action, fold
from revisions.store import tasks
from revisions.store import triggers as store
from tests.world import World, key


def test_every_action_appends_one_whole_revision(world: World) -> None:
    """R-03: deploy, deactivate, activate, delete append one revision each, without gaps, with actor and reason."""
    world.create(description="first")
    world.deactivate("tick", 1, "holiday")
    world.activate("tick", 2)
    world.delete("tick", 3)
    history = world.history()
    assert [revision.revision for revision in history] == [4, 3, 2, 1]
    assert [revision.action for revision in reversed(history)] == ["DEPLOY", "DEACTIVATE", "ACTIVATE", "DELETE"]
    assert {revision.actor for revision in history} == {"ann"}
    assert history[2].reason == "holiday"
    assert {json.loads(revision.spec)["description"] for revision in history} == {"first"}


def test_a_stale_revision_is_refused_with_the_author_of_the_newer_one(world: World) -> None:
    """R-04: the error has the current revision, its author and its time. Nothing changes."""
    world.create()
    world.update("tick", 1, description="second")
    attempts: tuple[Callable[[], object], ...] = (
        lambda: world.update("tick", 1, description="third"),
        lambda: world.activate("tick", 1),  # a conflict even if nothing would change
        lambda: world.deactivate("tick", 1),
        lambda: world.delete("tick", 1),
    )
    for attempt in attempts:
        with pytest.raises(PreconditionFailed) as refused:
            attempt()
        assert (refused.value.current_revision, refused.value.changed_by) == (2, "ann")
        assert refused.value.changed_at == world.clock_now()
    assert len(world.history()) == 2


def test_a_change_without_a_revision_is_refused(world: World) -> None:
    """R-04: a change of an existing trigger must name the revision that it is based on."""
    world.create()
    with pytest.raises(PreconditionRequired):
        world.deploy("tick", Expected(), description="blind")
    with pytest.raises(PreconditionRequired):
        delete_trigger(world.database, world.observations, key("tick"), Expected(), Caller())
    assert len(world.history()) == 1


def test_a_retry_is_recognised_only_by_its_idempotency_key(world: World) -> None:
    """R-04: the same key returns the first change, and is a conflict with another body. Without a key it is stale."""
    again = Caller("ann", idempotency_key="k1")
    first = world.deploy("tick", Expected(absent=True), again)
    second = world.deploy("tick", Expected(absent=True), again)
    assert (second.trigger.revision, second.created) == (first.trigger.revision, True)
    with pytest.raises(Conflict, match="k1"):
        world.deploy("tick", Expected(absent=True), again, description="other")
    with pytest.raises(PreconditionFailed):
        world.create()
    assert len(world.history()) == 1


def test_deploying_a_deleted_trigger_restores_it(world: World) -> None:
    """R-05: its revisions are numbered on, and it is active with a new baseline."""
    world.create()
    world.delete("tick", 1)
    world.advance(hours=1)
    with pytest.raises(PreconditionFailed):
        world.update("tick", 2)
    again = world.create()
    assert (again.created, again.trigger.revision, again.trigger.active, again.trigger.deleted) == (
        True,
        3,
        True,
        False,
    )
    assert world.status().watermark == world.clock_now()


def test_an_identical_deploy_appends_nothing(world: World) -> None:
    """R-06: identical text, tags and activation with the right revision return `changed` False."""
    world.create(tags=["b", "a"], input={"x": 1})
    same = world.update("tick", 1, tags=["a", "b"], input={"x": 1})
    assert (same.changed, same.trigger.revision) == (False, 1)
    assert not world.update("tick", 1, tags=["a", "b"], input={"x": 1}, active=True).changed
    assert world.update("tick", 1, tags=["a"], input={"x": 1}).changed
    assert len(world.history()) == 2


@pytest.mark.parametrize("operation", ["create", "update"])
def test_one_of_many_concurrent_writers_wins(world: World, operation: str) -> None:
    """R-07: of 64 writers that create or update, one wins and 63 get a conflict. Revision numbers have no gap."""
    expected = Expected(absent=True)
    if operation == "update":
        world.create()
        expected = Expected(revision=1)
    outcomes: list[str] = []
    barrier = threading.Barrier(64)

    def write(number: int) -> None:
        barrier.wait()
        try:
            world.deploy("tick", expected, description=f"writer {number}")
            outcomes.append("won")
        except TriggerctlError as refused:
            outcomes.append(type(refused).__name__)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["PreconditionFailed"] * 63 + ["won"]
    numbers = [revision.revision for revision in world.history()]
    assert numbers == list(range(len(numbers), 0, -1))


def test_a_change_to_the_present_state_appends_no_revision(world: World) -> None:
    """R-08: activating an active or deactivating an inactive trigger. A deleted trigger cannot be activated."""
    world.create()
    assert not world.activate("tick", 1).changed
    world.deactivate("tick", 1)
    assert not world.deactivate("tick", 2).changed
    world.delete("tick", 2)
    assert len(world.history()) == 3
    with pytest.raises(NotFound):
        world.activate("tick", 3)


def test_the_hash_chain_covers_the_spec_as_written(world: World) -> None:
    """R-10: in canonical form, without `active` and without defaults."""
    world.create(active=True, input={"b": 1.0, "a": "ü"})
    world.deactivate("tick", 1)
    world.update("tick", 2, input={})
    third, second, first = world.history()
    assert first.spec == '{"input":{"a":"ü","b":1},"schedule":{"every":"1m"},"task_version":"v1"}'
    assert (first.previous_hash, second.previous_hash, third.previous_hash) == ("", first.hash, second.hash)
    assert [chain.link(revision) for revision in (first, second, third)] == [first.hash, second.hash, third.hash]
    assert json.loads(chain.envelope(second))["spec"] == json.loads(second.spec)
    assert chain.envelope(second) == chain.canonical(json.loads(chain.envelope(second)))


def test_the_current_row_is_the_fold_of_the_revisions(world: World) -> None:
    """R-03, invariant 1: after any series of changes."""
    world.create()
    world.deactivate("tick", 1, "pause", until=world.clock_now() + timedelta(hours=1))
    world.update("tick", 2, tags=["x"])
    world.activate("tick", 3)
    world.delete("tick", 4)
    world.create()
    with world.database.read() as connection:
        assert store.get(connection, key("tick")) == fold(reversed(world.history()))


def _summary(world: World, version: str) -> tuple[object, ...]:
    with world.database.read() as connection:
        task = next(task for task in tasks.page(connection, None, 100) if task.key.version == version)
    return task.trigger_name, task.total_triggers, task.active_triggers, task.trigger_automation


def test_a_task_version_summarises_its_triggers(world: World) -> None:
    """R-12: every change updates the summary. It has name and automation only for a single trigger."""
    automation = {"schedule": {"every": "1m"}}
    assert _summary(world, "v1") == (None, 0, 0, None)
    world.create("a")
    assert _summary(world, "v1") == ("a", 1, 1, automation)
    world.create("b", active=False)
    assert _summary(world, "v1") == (None, 2, 1, None)
    world.deactivate("a", 1)
    assert _summary(world, "v1") == (None, 2, 0, None)
    world.delete("b", 1)
    assert _summary(world, "v1") == ("a", 1, 0, automation)


def test_a_move_to_another_task_version_updates_both_summaries(world: World) -> None:
    """R-13: the trigger leaves the summary of v1 and enters that of v2."""
    world.register("v2")
    world.create()
    world.update("tick", 1, task_version="v2")
    assert _summary(world, "v1") == (None, 0, 0, None)
    assert _summary(world, "v2") == ("tick", 1, 1, {"schedule": {"every": "1m"}})


def test_the_error_for_an_unknown_task_version_names_the_known_ones(world: World) -> None:
    """R-14: in its hint."""
    world.register("v2")
    with pytest.raises(Invalid) as refused:
        world.create(task_version="v9")
    fault = refused.value.errors[0]
    assert (fault.path, fault.hint) == ("spec.task_version", "registered are v1, v2")


def test_deleting_a_task_version_deletes_its_triggers_and_cancels_pending_runs(world: World) -> None:
    """R-14: each trigger gets a revision. The same version can be registered again with the same spec."""
    world.create("a")
    world.create("b")
    world.fire(key("a"), None, Caller())
    version = world.register().task.key
    delete_task(world.database, world.observations, version, Caller("bob"))
    assert [(world.history(name)[0].action, world.history(name)[0].actor) for name in "ab"] == [("DELETE", "bob")] * 2
    assert [run.status for run in world.runs("a")] == ["cancelled"]
    with pytest.raises(Invalid):
        world.create("c")
    with pytest.raises(NotFound):
        delete_task(world.database, world.observations, version, Caller())
    with pytest.raises(Conflict):
        world.register(description="another spec")
    assert world.register().changed
    world.create("c")


def test_a_task_version_is_immutable(world: World) -> None:
    """R-23: registering the same spec changes nothing; another spec is a conflict, whose hint says what to do."""
    assert not world.register().changed
    with pytest.raises(Conflict) as refused:
        world.register(timeout="5m")
    assert "new version" in refused.value.errors[0].hint


def test_inputs_must_be_declared(world: World) -> None:
    """R-12: the error names each input that the task does not declare."""
    world.register("v2", inputs={"since": {"type": "string"}})
    with pytest.raises(Invalid, match=r"spec\.input\.sinse"):
        world.create(task_version="v2", input={"sinse": "x"})
    world.create(task_version="v2", input={"since": "x"})


def test_a_deploy_keeps_a_pause(world: World) -> None:
    """R-20: without `active` in its spec it keeps the activation, and the end and reason of the pause."""
    until = world.clock_now() + timedelta(days=1)
    world.create()
    world.deactivate("tick", 1, "holiday", until=until)
    after = world.update("tick", 2, description="new").trigger
    assert (after.active, after.until, after.deactivated_reason) == (False, until, "holiday")
    assert world.update("tick", 3, description="new", active=True).trigger.active


def test_a_pause_ends_by_itself_at_its_end(world: World) -> None:
    """R-20, R-21: the system appends an ACTIVATE revision, and the end of the pause is the baseline."""
    world.create(catchup={"policy": "all"})
    until = world.clock_now() + timedelta(minutes=10)
    world.deactivate("tick", 1, until=until)
    world.advance(minutes=5)
    world.resync()
    assert len(world.history()) == 2
    world.advance(minutes=8)
    world.resync()
    newest = world.history()[0]
    assert (newest.action, newest.actor, newest.reason) == (Action.ACTIVATE, "system", "pause ended")
    world.resync()
    assert [run.scheduled_at for run in world.runs()] == [until + timedelta(minutes=n) for n in (1, 2, 3)]
    assert world.skips() == []


def test_an_end_of_a_pause_in_the_past_is_refused(world: World) -> None:
    """R-20: the present instant too."""
    world.create()
    with pytest.raises(Invalid, match="until"):
        world.deactivate("tick", 1, until=world.clock_now())


@pytest.mark.parametrize("change", ["schedule", "deactivate", "delete", "activate again"])
def test_a_new_baseline_supersedes_the_undecided_occurrences(world: World, change: str) -> None:
    """R-21: a changed schedule, a pause and a deletion set the watermark and record one superseded range."""
    world.create(catchup={"policy": "all"})
    world.advance(minutes=5)
    now = world.clock_now()
    match change:
        case "schedule":
            world.update("tick", 1, catchup={"policy": "all"}, schedule={"every": "2m"})
        case "delete":
            world.delete("tick", 1)
        case _:
            world.deactivate("tick", 1)
    (skip,) = world.skips()
    assert (skip.outcome, skip.count, skip.scheduled_until, skip.revision) == ("superseded", 5, now, 1)
    assert world.status().watermark == now
    if change == "activate again":
        world.advance(hours=2)
        world.activate("tick", 2)
        assert len(world.skips()) == 1
        assert world.status().watermark == world.clock_now()
    world.resync()
    assert world.runs() == []


def test_a_new_baseline_supersedes_the_backlog(world: World) -> None:
    """R-21: in the same range as the undecided occurrences."""
    world.create(catchup={"policy": "all"})
    world.advance(minutes=30)
    world.loop = world.another_loop_without_catch_up()
    world.resync()
    started = len(world.runs())
    world.advance(seconds=90)
    world.deactivate("tick", 1)
    (skip,) = world.skips()
    assert started + (skip.count or 0) == 31
    world.activate("tick", 2)
    world.loop = world.another_loop()
    world.resync()
    assert len(world.runs()) == started


def test_a_deploy_with_the_same_times_keeps_watermark_and_next_fire(world: World) -> None:
    """R-21: a changed `kickoff_time_input` leaves the times as they are."""
    world.create()
    world.advance(seconds=30)
    before = world.status()
    world.update("tick", 1, description="x", schedule={"every": "1m", "kickoff_time_input": "at"})
    after = world.status()
    assert (after.watermark, after.next_fire_at) == (before.watermark, before.next_fire_at)
    assert after.revision == 2


def test_in_is_resolved_at_the_first_deploy(world: World) -> None:
    """S-15: to an instant in whole seconds, which later deploys with the same schedule keep."""
    world.advance(milliseconds=500)
    created = world.create(schedule={"in": "48h"})
    assert json.loads(created.trigger.resolved) == {"at": "2026-03-04T08:00:01Z"}
    world.advance(hours=1)
    again = world.update("tick", 1, schedule={"in": "48h"}, description="x")
    assert again.trigger.resolved == created.trigger.resolved
    assert world.status().next_fire_at == datetime(2026, 3, 4, 8, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "path"),
    [
        ({"cron": "0 25 * * *"}, "spec.schedule.cron"),
        ({"cron": "0 0 30 2 *"}, "spec.schedule.cron"),
        ({"cron": "* * * * *", "timezone": "Europe/Berlinn"}, "spec.schedule.timezone"),
        ({"at": "2026-03-02T07:59:59Z"}, "spec.schedule.at"),
        ({"every": "500ms"}, "spec.schedule.every"),
        ({"every": "0s"}, "spec.schedule.every"),
        ({"in": "soon"}, "spec.schedule.in"),
        ({"cron": "* * * * *", "every": "1m"}, "spec.schedule.every"),
        ({"every": "1m", "gap": "skip"}, "spec.schedule.gap"),
        ({"every": None, "cron": "* * * * *"}, "spec.schedule.every"),
        ({}, "spec.schedule"),
    ],
)
def test_the_error_for_an_invalid_schedule_names_its_field(world: World, schedule: dict[str, str], path: str) -> None:
    """S-02: wrong expressions and zones, schedules that never fire, and instants in the past."""
    with pytest.raises(Invalid) as refused:
        world.create(schedule=schedule)
    assert refused.value.errors[0].path == path
    with world.database.read() as connection:
        assert store.get(connection, key("tick")) is None


def test_a_check_in_the_database_requires_exactly_one_automation(world: World) -> None:
    """S-01: and exactly one kind of schedule."""
    from sqlalchemy import text
    from sqlalchemy.exc import IntegrityError

    world.create()
    for spec in ("{}", '{"schedule":{"every":"1m"},"event":{}}', '{"schedule":{"every":"1m","cron":"* * * * *"}}'):
        with pytest.raises(IntegrityError), world.database.write() as connection:
            connection.execute(text("UPDATE triggers SET spec = :spec"), {"spec": spec})


def test_a_trigger_without_a_fire_left_is_not_activated(world: World) -> None:
    """S-15: neither by a person nor by the end of its pause."""
    world.create(schedule={"at": "2026-03-02T09:00:00Z"})
    world.deactivate("tick", 1, until=world.clock_now() + timedelta(hours=2))
    world.advance(hours=3)
    world.resync()
    assert len(world.history()) == 2
    with pytest.raises(Invalid, match="no fire left"):
        world.activate("tick", 2)
    world.update("tick", 2, schedule={"at": "2026-03-02T12:00:00Z"})
    assert world.activate("tick", 3).trigger.active
