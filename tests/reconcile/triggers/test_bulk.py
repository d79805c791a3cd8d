"""Change many triggers at once, all or none."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.triggers.activation import change_triggers
from reconcile.triggers.append import Changed
from reconcile.triggers.deploy import deploy_trigger
from reconcile.triggers.locks import Selection
from revisions.errors import Conflict, Invalid, PreconditionFailed, TriggerctlError
from revisions.history.triggers import Action
from revisions.spec.trigger import TriggerManifest
from revisions.store import triggers as store
from revisions.store.database import Database
from tests.races.crowd import at_once
from tests.waiting import PATIENCE
from tests.world import World, key, trigger_document

WHO = Caller("bob", "quiet")


def change(world: World, chosen: Selection, action: Action = Action.DEACTIVATE, caller: Caller = WHO) -> list[Changed]:
    return change_triggers(world.database, world.observations, chosen, action, caller)


def numbers(changed: list[Changed]) -> list[tuple[str, int | None, int, bool]]:
    return [(one.trigger.key.name, one.before, one.trigger.revision, one.changed) for one in changed]


@pytest.mark.parametrize(
    ("action", "made"), [(Action.ACTIVATE, "ACTIVATE"), (Action.DEACTIVATE, "DEACTIVATE"), (Action.DELETE, "DELETE")]
)
def test_named_triggers_are_changed_in_the_order_of_their_names(world: World, action: Action, made: str) -> None:
    """R-16: each gets a revision with actor and reason; the answer has the old and the new number."""
    world.create("b", active=action is not Action.ACTIVATE)
    world.create("a", active=action is not Action.ACTIVATE)
    world.update("a", 1, description="x")
    changed = change(world, {key("b"): 1, key("a"): 2}, action)
    assert numbers(changed) == [("a", 2, 3, True), ("b", 1, 2, True)]
    newest = world.history("a")[0]
    assert (newest.action, newest.actor, newest.reason) == (made, "bob", "quiet")


def test_one_stale_revision_refuses_all(world: World) -> None:
    """R-16: one conflict has a fault for each trigger that cannot be changed; nothing is changed."""
    for name in ("a", "b", "c"):
        world.create(name)
    world.update("b", 1, description="x")
    world.delete("c", 1)
    with pytest.raises(Conflict) as refused:
        change(world, {key("a"): 1, key("b"): 1, key("c"): 2, key("d"): 1})
    paths = [fault.path.rsplit("/", 1)[1] for fault in refused.value.errors]
    assert paths == ["b", "c", "d"]
    assert "stands at revision 2, not 1" in refused.value.errors[0].message
    assert [len(world.history(name)) for name in ("a", "b", "c")] == [1, 2, 2]
    assert world.status("a").next_fire_at is not None


def test_a_tag_selects_the_triggers_that_have_it(world: World) -> None:
    """R-16: exactly that tag, without deleted triggers; a trigger that is so already is reported as unchanged."""
    world.create("a", tags=["client-7", "x"])
    world.create("b", tags=["client-7"], active=False)
    world.create("c", tags=["client-77", "Client-7", "7", 'x","client-7'])
    world.create("d", tags=["client-7"])
    world.delete("d", 1)
    assert numbers(change(world, "client-7")) == [("a", 1, 2, True), ("b", 1, 1, False)]
    assert change(world, "nobody") == []
    assert len(world.history("c")) == 1


def test_a_tag_may_have_special_characters(world: World) -> None:
    """R-16: characters with a meaning in SQL patterns stand for themselves."""
    for number, tag in enumerate(['x","y', "100%", "a_b", "[", "\\"]):
        world.create(f"tick-{number}", tags=[tag])
        assert [one.trigger.key.name for one in change(world, tag)] == [f"tick-{number}"]


def test_a_pause_of_many_ends_by_itself(world: World) -> None:
    """R-20: `until` is stored with each; one that is past is refused as invalid, not as a conflict."""
    world.create("a", tags=["x"])
    until = world.clock_now().replace(hour=23)
    (paused,) = change_triggers(world.database, world.observations, "x", Action.DEACTIVATE, WHO, until=until)
    assert paused.trigger.until == until
    with pytest.raises(Invalid, match="until"):
        change_triggers(world.database, world.observations, "x", Action.DEACTIVATE, WHO, until=world.clock_now())


def test_one_trigger_that_cannot_be_resumed_refuses_all(world: World) -> None:
    """R-16, S-15: the trigger with no fire left is named, and the others stay paused."""
    world.create("a", tags=["x"], active=False)
    world.create("b", tags=["x"], schedule={"at": "2026-03-02T09:00:00Z"})
    world.deactivate("b", 1)
    world.advance(hours=2)
    with pytest.raises(Conflict, match="no fire left") as refused:
        change(world, "x", Action.ACTIVATE)
    assert [fault.path for fault in refused.value.errors] == [str(key("b"))]
    assert len(world.history("a")) == 1


def test_a_retry_of_a_bulk_change_is_recognised_by_its_key(world: World) -> None:
    """R-04: a repeated request returns what the first one made; another request under the same key is a conflict."""
    world.create("a")
    world.create("b", active=False)
    again, chosen = Caller("bob", "quiet", "k"), {key("a"): 1, key("b"): 1}
    first = change(world, chosen, caller=again)
    assert numbers(change(world, chosen, caller=again)) == numbers(first)
    with pytest.raises(Conflict):
        change(world, {key("a"): 2}, Action.DELETE, again)
    assert len(world.history("a")) == 2


class Tagging:
    """Writers that change tags and task versions of triggers, and others that change all triggers with a tag."""

    NAMES = tuple(f"tick-{number}" for number in range(6))

    def __init__(self, world: World, rounds: int) -> None:
        self.world, self.rounds = world, rounds
        for number, name in enumerate(self.NAMES):
            world.create(name, tags=["even" if number % 2 else "odd"])

    def retag(self, names: tuple[str, ...]) -> None:
        for number in range(self.rounds):
            for name in names:
                with self.world.database.read() as connection:
                    current = store.get(connection, key(name))
                assert current is not None
                tag = "odd" if current.tags == ("even",) else "even"
                document = trigger_document(name, tags=[tag], task_version=f"v{1 + number % 2}")
                try:
                    deploy_trigger(
                        self.world.database,
                        self.world.observations,
                        TriggerManifest.read(document),
                        Expected(revision=current.revision),
                        WHO,
                    )
                except PreconditionFailed:
                    continue

    def toggle(self, tag: str, action: Action) -> None:
        for _ in range(self.rounds):
            change_triggers(self.world.database, self.world.observations, tag, action, Caller(f"by {tag}"))

    def toggle_named(self, names: tuple[str, ...]) -> None:
        for number in range(self.rounds):
            with self.world.database.read() as connection:
                found = [store.get(connection, key(name)) for name in names]
            chosen = {trigger.key: trigger.revision for trigger in found if trigger}
            try:
                action = Action.DEACTIVATE if number % 2 else Action.ACTIVATE
                change_triggers(self.world.database, self.world.observations, chosen, action, Caller("by name"))
            except Conflict:
                continue


def test_changes_by_tag_while_tags_and_versions_change(
    postgresql_database_url: str, postgresql_log: Path | None
) -> None:
    """R-16, R-13: with connections in opposite orders there is no deadlock, and each changed trigger had the tag."""
    begin = postgresql_log.stat().st_size if postgresql_log else 0
    with Database(postgresql_database_url) as database:
        world = World(database, database.clock)
        world.register()
        world.register("v2")
        tagging = Tagging(world, rounds=12)
        calls: list[Callable[[], None]] = [
            partial(tagging.retag, tagging.NAMES),
            partial(tagging.retag, tagging.NAMES[::-1]),
            partial(tagging.toggle, "even", Action.DEACTIVATE),
            partial(tagging.toggle, "odd", Action.ACTIVATE),
            partial(tagging.toggle, "even", Action.ACTIVATE),
            partial(tagging.toggle_named, tagging.NAMES),
            partial(tagging.toggle_named, tagging.NAMES[::-1]),
        ]
        answers = at_once(calls)
        assert [answer for answer in answers if isinstance(answer, TriggerctlError)] == []
        made = [revision for name in tagging.NAMES for revision in world.history(name)]
    by_tag = [revision for revision in made if revision.actor.startswith("by ") and revision.actor != "by name"]
    assert by_tag
    assert {(revision.actor, revision.tags) for revision in by_tag} <= {("by even", ("even",)), ("by odd", ("odd",))}
    if postgresql_log:
        assert b"deadlock detected" not in postgresql_log.read_bytes()[begin:]


def test_a_tag_is_read_again_under_the_locks(postgresql_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-16: a trigger that loses the tag during the wait for locks is left alone, one that gets it is changed."""
    with Database(postgresql_database_url) as database:
        world = World(database, database.clock)
        world.register()
        world.create("a", tags=["x"])
        world.create("b", tags=["x"])
        world.create("c", tags=["y"])
        asked, moved = threading.Event(), threading.Event()
        tagged = store.tagged

        def asks(connection: object, tag: str, projects: object) -> object:
            found = tagged(connection, tag, projects)  # type: ignore[arg-type]
            if not asked.is_set():
                asked.set()
                assert moved.wait(PATIENCE)
            return found

        monkeypatch.setattr(store, "tagged", asks)

        def move() -> None:
            assert asked.wait(PATIENCE)
            world.update("a", 1, tags=["y"])
            world.update("c", 1, tags=["x"])
            moved.set()

        answers = at_once([lambda: change(world, "x"), move])
    (changed,) = [answer for answer in answers if isinstance(answer, list)]
    assert numbers(changed) == [("b", 1, 2, True), ("c", 2, 3, True)]
