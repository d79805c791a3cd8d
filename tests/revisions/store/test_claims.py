"""Leases of claims."""

from datetime import timedelta

from revisions.store import claims
from revisions.store import runs as run_store
from tests.world import World


def test_a_heartbeat_prolongs_a_lease_and_never_shortens_it(world: World) -> None:
    """X-05: an extension that ends before the lease has no effect."""
    world.create()
    world.advance(minutes=1)
    world.resync()
    (claimed,) = world.claim()
    until = claimed.lease_until
    assert until is not None
    for shorter_or_longer, expected in ((-30, 0), (0, 0), (30, 30)):
        with world.database.write() as connection:
            run = run_store.get(connection, claimed.id)
            assert run is not None
            claims.extend_lease(connection, run, until + timedelta(seconds=shorter_or_longer))
        (after,) = world.runs()
        assert after.lease_until == until + timedelta(seconds=expected)
