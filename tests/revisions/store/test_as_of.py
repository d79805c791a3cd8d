"""Past states of a trigger, read without its whole history."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from revisions.history.triggers import fold
from revisions.store import revisions as revision_store
from revisions.store import triggers as store
from tests.world import World, key


@pytest.mark.parametrize(
    "history", ["toggled", "paused and redeployed", "created inactive", "deleted and back", "renamed"]
)
def test_a_past_state_is_the_fold_of_the_revisions_up_to_then(world: World, history: str) -> None:
    """R-09, R-03: at each revision, just before the next one, at the present time and before the first one."""
    name = "tick"
    steps: list[Callable[[], object]]
    match history:
        case "toggled":
            steps = [world.create, lambda: world.deactivate("tick", 1, "a"), lambda: world.activate("tick", 2)]
        case "paused and redeployed":
            steps = [
                world.create,
                lambda: world.deactivate("tick", 1, "holiday"),
                lambda: world.update("tick", 2, description="x"),
                lambda: world.update("tick", 3, description="y"),
                lambda: world.update("tick", 4, description="y", active=True),
            ]
        case "created inactive":
            steps = [lambda: world.create(active=False), lambda: world.update("tick", 1, description="x")]
        case "deleted and back":
            steps = [
                world.create,
                lambda: world.deactivate("tick", 1, "holiday"),
                lambda: world.delete("tick", 2),
                lambda: world.create(active=False),
                lambda: world.update("tick", 4, description="x"),
            ]
        case _:
            name = "tock"
            steps = [world.create, lambda: world.deactivate("tick", 1, "a"), lambda: world.rename("tick", "tock", 2)]
    for step in steps:
        step()
        world.advance(minutes=10)
    revisions = world.history(name)[::-1]
    assert len(revisions) == len(steps)
    now = world.clock_now()
    with world.database.read() as connection:
        for number, revision in enumerate(revisions, 1):
            for later in (timedelta(), timedelta(minutes=10, microseconds=-1)):
                past = revision_store.as_of(connection, world.id(name), revision.at + later)
                assert past == fold(revisions[:number])
        assert revision_store.as_of(connection, world.id(name), now) == store.get(connection, key(name))
        assert revision_store.as_of(connection, world.id(name), world.start - timedelta(microseconds=1)) is None
