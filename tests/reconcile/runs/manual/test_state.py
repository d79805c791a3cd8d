"""The state of a trigger: read, set and removed by people."""

from collections.abc import Callable
from typing import Any

import pytest

from reconcile.decide.attempt_ends import LARGEST
from reconcile.decide.authority import Caller
from reconcile.observations.specs import StateChanged
from reconcile.runs.manual.orders import Seeded, clear_state, read_state, seed_state
from revisions.errors import Invalid, NotFound
from revisions.ids import TriggerKey
from revisions.store.states import StoredState
from tests.world import World, key

ANN = Caller("ann")


class Scene:
    """A trigger, and operations on the state of any trigger by key."""

    def __init__(self, world: World) -> None:
        world.create()
        self.world = world

    def show(self, trigger: TriggerKey) -> StoredState | None:
        return read_state(self.world.database, trigger)

    def seed(self, trigger: TriggerKey, value: Any, caller: Caller) -> Seeded:
        return seed_state(self.world.database, self.world.observations, trigger, value, caller)

    def clear(self, trigger: TriggerKey, caller: Caller) -> Seeded:
        return clear_state(self.world.database, self.world.observations, trigger, caller)


@pytest.fixture
def scene(world: World) -> Scene:
    return Scene(world)


def test_a_new_trigger_has_no_state(scene: Scene) -> None:
    """X-03: removing it changes nothing."""
    assert scene.show(key("tick")) is None
    assert scene.clear(key("tick"), ANN) == Seeded(None, changed=False)


def test_the_author_of_a_state_is_recorded(world: World, scene: Scene) -> None:
    """X-03, invariant 7: beside the state and in an observation, also when it is removed."""
    seeded = StoredState(world.id("tick"), '{"cursor":1}', world.start, "ann", None)
    assert scene.seed(key("tick"), {"cursor": 1}, ANN) == Seeded(seeded, changed=True)
    assert scene.show(key("tick")) == seeded
    assert world.observed[-1] == StateChanged(key("tick"), "ann", 12)
    world.advance(minutes=1)
    cleared = StoredState(world.id("tick"), None, world.clock_now(), "bob", None)
    assert scene.clear(key("tick"), Caller("bob")) == Seeded(cleared, changed=True)
    assert scene.show(key("tick")) == cleared
    assert world.observed[-1] == StateChanged(key("tick"), "bob", None)


def test_setting_the_same_state_changes_nothing(world: World, scene: Scene) -> None:
    """R-06: the first author stays, however the value was written."""
    first = scene.seed(key("tick"), {"a": 1, "b": 2.0}, ANN)
    observed = len(world.observed)
    assert scene.seed(key("tick"), {"b": 2, "a": 1}, Caller("bob")) == Seeded(first.state, changed=False)
    assert len(world.observed) == observed


def test_a_state_that_cannot_be_stored_is_refused(scene: Scene) -> None:
    """X-06, R-18: larger than 64 KiB, or not representable as JSON; the old state stays."""
    stored = scene.seed(key("tick"), "x" * (LARGEST - 2), ANN).state
    with pytest.raises(Invalid, match="state: is 65,537 bytes as canonical JSON, at most 65,536 are kept"):
        scene.seed(key("tick"), "x" * (LARGEST - 1), ANN)
    with pytest.raises(Invalid, match=r"state\.cursor: integer beyond"):
        scene.seed(key("tick"), {"cursor": 2**53}, ANN)
    assert scene.show(key("tick")) == stored


def test_a_state_outlives_changes_of_its_trigger(world: World, scene: Scene) -> None:
    """X-03, R-22: deploys, pauses and renames; after a deletion it waits for the trigger to be created again."""
    stored = scene.seed(key("tick"), 1, ANN).state
    world.deactivate("tick", 1)
    world.update("tick", 2, schedule={"every": "2m"})
    world.rename("tick", "tock", 3)
    world.delete("tock", 4)
    assert scene.show(key("tock")) == stored
    changes: tuple[Callable[[], object], ...] = (
        lambda: scene.seed(key("tock"), 2, ANN),
        lambda: scene.clear(key("tock"), ANN),
    )
    for change in changes:
        with pytest.raises(NotFound, match="was deleted at revision 5"):
            change()
    world.create("tock")
    assert scene.show(key("tock")) == stored


def test_an_unknown_trigger_is_not_found(scene: Scene) -> None:
    """X-03: the error names it."""
    for request in (scene.show, lambda name: scene.seed(name, 1, ANN), lambda name: scene.clear(name, ANN)):
        with pytest.raises(NotFound, match="there is no trigger acme/production/report/none"):
            request(key("none"))
