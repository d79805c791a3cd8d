"""A copy of a database becomes an installation of its own."""

import pytest

from reconcile.decide.admission import Pace
from reconcile.loop.restore import separate_installation
from revisions.errors import Conflict
from revisions.store import installations
from tests.world import World

INTERVAL = Pace().resync_interval


def current(world: World) -> str:
    with world.database.read() as connection:
        return installations.current(connection)


def test_a_copy_gets_another_id(world: World) -> None:
    """X-10: by which none of the original's work elsewhere is its own."""
    before = current(world)
    assert separate_installation(world.database, INTERVAL) == current(world) != before


def test_a_database_that_is_at_work_is_left_as_it_is(world: World) -> None:
    """X-10: what its controllers began would be another's."""
    before = current(world)
    world.resync()
    with pytest.raises(Conflict, match="1 controller runs on this database, or did a moment ago"):
        separate_installation(world.database, INTERVAL)
    assert current(world) == before
