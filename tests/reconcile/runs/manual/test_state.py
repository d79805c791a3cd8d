"""The state of a trigger, read, seeded and removed by people."""

from collections.abc import Callable

import pytest

from reconcile.decide.task_output import LARGEST
from reconcile.observations.specs import StateChanged
from reconcile.runs.manual.state import Seeded, Seeding
from reconcile.triggers.caller import Caller
from revisions.errors import Invalid, NotFound
from revisions.store.states import StoredState
from tests.world import World, key

ANN = Caller("ann")


@pytest.fixture
def seeding(world: World) -> Seeding:
    world.create()
    return Seeding(world.database, world.observations)


def test_a_new_trigger_has_none(seeding: Seeding) -> None:
    """X-03: nothing was ever written."""
    assert seeding.show(key("tick")) is None
    assert seeding.clear(key("tick"), ANN) == Seeded(None, changed=False)


def test_who_seeded_it_is_recorded(world: World, seeding: Seeding) -> None:
    """X-03, invariant 7: beside the state, and as an observation; removing it is recorded too."""
    seeded = StoredState(world.id("tick"), '{"cursor":1}', world.start, "ann", None)
    assert seeding.seed(key("tick"), {"cursor": 1}, ANN) == Seeded(seeded, changed=True)
    assert seeding.show(key("tick")) == seeded
    assert world.observed[-1] == StateChanged(key("tick"), "ann", 12)
    world.advance(minutes=1)
    cleared = StoredState(world.id("tick"), None, world.clock_now(), "bob", None)
    assert seeding.clear(key("tick"), Caller("bob")) == Seeded(cleared, changed=True)
    assert seeding.show(key("tick")) == cleared
    assert world.observed[-1] == StateChanged(key("tick"), "bob", None)


def test_the_same_again_changes_nothing(world: World, seeding: Seeding) -> None:
    """R-06: whoever was first stands beside it, however it was written."""
    first = seeding.seed(key("tick"), {"a": 1, "b": 2.0}, ANN)
    told = len(world.observed)
    assert seeding.seed(key("tick"), {"b": 2, "a": 1}, Caller("bob")) == Seeded(first.state, changed=False)
    assert len(world.observed) == told


def test_what_cannot_be_kept_is_refused(seeding: Seeding) -> None:
    """X-06, R-18: over 64 KiB, and what JSON cannot carry; the old one stays."""
    kept = seeding.seed(key("tick"), "x" * (LARGEST - 2), ANN).state
    with pytest.raises(Invalid, match="state: is 65,537 bytes as canonical JSON, at most 65,536 are kept"):
        seeding.seed(key("tick"), "x" * (LARGEST - 1), ANN)
    with pytest.raises(Invalid, match=r"state\.cursor: integer beyond"):
        seeding.seed(key("tick"), {"cursor": 2**53}, ANN)
    assert seeding.show(key("tick")) == kept


def test_a_state_outlives_changes_of_its_trigger(world: World, seeding: Seeding) -> None:
    """X-03, R-22: deploys, pauses and renames leave it alone; a deletion keeps it for who brings the trigger back."""
    kept = seeding.seed(key("tick"), 1, ANN).state
    world.deactivate("tick", 1)
    world.update("tick", 2, schedule={"every": "2m"})
    world.rename("tick", "tock", 3)
    world.delete("tock", 4)
    assert seeding.show(key("tock")) == kept
    changes: tuple[Callable[[], object], ...] = (
        lambda: seeding.seed(key("tock"), 2, ANN),
        lambda: seeding.clear(key("tock"), ANN),
    )
    for change in changes:
        with pytest.raises(NotFound, match="was deleted at revision 5"):
            change()
    world.create("tock")
    assert seeding.show(key("tock")) == kept


def test_a_trigger_that_is_not_there(seeding: Seeding) -> None:
    """X-03: its name is in the answer."""
    for ask in (seeding.show, lambda of: seeding.seed(of, 1, ANN), lambda of: seeding.clear(of, ANN)):
        with pytest.raises(NotFound, match="there is no trigger acme/production/report/none"):
            ask(key("none"))
