"""Making a copy of a database an installation of its own (X-10)."""

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
    """X-10: under the new id it takes none of the original's work in other systems for its own."""
    before = current(world)
    assert separate_installation(world.database, INTERVAL) == current(world) != before


def test_a_database_with_a_running_controller_is_refused(world: World) -> None:
    """X-10: under another id its controllers would lose the work they have started in other systems."""
    before = current(world)
    world.resync()
    with pytest.raises(Conflict, match="1 controller runs on this database, or did a moment ago"):
        separate_installation(world.database, INTERVAL)
    assert current(world) == before
