"""What a scrape gets of things that happen rarely."""

import pytest

from controller.metrics import Metrics
from controller.settings import Settings
from reconcile.backlogs import Backlogs
from reconcile.revising import Caller
from reconcile.rules.pace import Pace
from revisions.store import quarantines
from tests.world import World, key


@pytest.fixture
def metrics(world: World) -> Metrics:
    """They hear what happens in the world."""
    metrics = Metrics(world.database, lambda: False, Settings())
    world.observations.subscribe(metrics.subscriber)
    return metrics


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"triggerctl_{name}", labels)


def test_a_backlog_that_was_given_up_counts_as_missed(world: World, metrics: Metrics) -> None:
    """L-17, O-02: by how many occurrences it held."""
    world.create(overlap="allow", catchup={"policy": "all"})
    world.advance(minutes=12)
    world.another_loop_without_catch_up().resync()
    Backlogs(world.database, world.observations, Pace()).drop(key("tick"), Caller("ann"))
    assert value(metrics, "skips_total", reason="missed") == 10


def test_how_long_a_start_waited_for_its_token(world: World, metrics: Metrics) -> None:
    """L-09, O-02: from the first refusal to the start."""
    for name in ("a", "b"):
        world.create(name, overlap="allow")
    world.loop = world.another_loop(Pace(execution_qps=0.1, execution_burst=1))
    world.advance(minutes=1)
    world.resync()
    assert value(metrics, "rate_limit_wait_seconds_count") == 0
    world.advance(seconds=10)
    world.resync()
    assert value(metrics, "rate_limit_wait_seconds_count") == 1
    assert value(metrics, "rate_limit_wait_seconds_sum") == 10


def test_replicas_demand_and_findings(world: World, metrics: Metrics) -> None:
    """L-14, L-16, L-18, O-02: counted at each resync and scan."""
    world.create(schedule={"every": "10s"}, overlap="allow")
    world.resync()
    assert value(metrics, "asked_rate") == 0.1
    assert value(metrics, "replicas") == 1
    world.advance(minutes=3)
    world.loop.scan()
    assert value(metrics, "findings_total", kind="overdue") == 1


def test_what_is_in_quarantine_is_read_from_the_database(world: World, metrics: Metrics) -> None:
    """L-13, O-02: the same on every replica; what was deactivated since is not among it."""
    world.create()
    assert value(metrics, "quarantined") == 0
    with world.database.write() as connection:
        quarantines.put(connection, world.id("tick"), "unreadable", world.clock.now(connection))
    assert value(metrics, "quarantined") == 1
    world.deactivate("tick", 1)
    assert value(metrics, "quarantined") == 0
