"""`start_within` from the manifest to the ledger; expiry as a runner sees it is in test_runner."""

from datetime import timedelta

import pytest

from controller.settings import Settings
from controller.telemetry.metrics import Metrics
from reconcile.decide import changes
from reconcile.decide.authority import Caller
from reconcile.decide.terms import terms
from reconcile.runs.claim import claim_runs
from revisions.errors import Invalid
from revisions.history.chain import canonical
from revisions.spec.trigger import TriggerManifest
from revisions.store import occurrences
from tests.world import World, key, trigger_document


def claimed_ids(world: World) -> list[str]:
    """Claim for one worker and return the ids of the runs."""
    lease = timedelta(minutes=1)
    batch = claim_runs(world.database, world.observations, claimed_by="w", lease=lease, limit=10, max_running=10)
    return [claim.run.id for claim in batch.claimed]


@pytest.mark.parametrize("text", ["1s", "10m", "PT1H", "365d"])
def test_start_within_accepts_a_second_to_a_year(text: str) -> None:
    """X-18: in each notation of a span."""
    assert changes.faults(TriggerManifest.read(trigger_document(start_within=text))) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0s", "'0s' is not between 1s and 1y"),
        ("2y", "'2y' is not between 1s and 1y"),
        ("soon", "'soon' is not a span of time"),
    ],
)
def test_start_within_refuses_other_spans(text: str, message: str) -> None:
    """X-18, R-18: with the field's path."""
    with pytest.raises(Invalid) as refused:
        TriggerManifest.read(trigger_document(start_within=text))
    [fault] = refused.value.errors
    assert (fault.path, fault.message) == ("spec.start_within", message)


def test_without_start_within_a_run_waits_for_ever(world: World) -> None:
    """X-18: no `start_by` is stored."""
    trigger_terms = terms(canonical(trigger_document()["spec"]), "{}")
    assert trigger_terms.start_by(world.start) is None
    world.create()
    world.advance(minutes=1)
    world.resync()
    assert [run.start_by for run in world.runs()] == [None]


def test_scheduled_and_manual_runs_have_a_start_by(world: World) -> None:
    """X-18: counted from when the run was created; a later revision does not change it."""
    world.create(schedule={"every": "1h"}, start_within="10m", overlap="allow")
    world.advance(minutes=60, seconds=30)
    world.resync()
    world.fire(key("tick"), None, Caller("ann"), overlap="allow")
    world.update("tick", 1, schedule={"every": "1h"}, start_within="1m", overlap="allow")
    by = world.start + timedelta(minutes=70, seconds=30)
    assert [(run.source, run.start_by) for run in world.runs()] == [("schedule", by), ("manual", by)]


def test_an_expired_run_does_not_block_the_next_one(world: World) -> None:
    """X-18, X-09, E-05: under `skip` the next one starts; ledger and metrics show that the first expired."""
    metrics = Metrics(world.database, lambda: False, Settings())
    world.observations.subscribe(metrics.count)
    world.create(schedule={"every": "10m"}, start_within="5m")
    world.advance(minutes=10)
    world.resync()
    world.advance(minutes=5, seconds=1)
    assert claimed_ids(world) == []
    world.advance(minutes=5)
    world.resync()
    first, second = world.runs()
    assert (first.status, second.status) == ("expired", "pending")
    assert claimed_ids(world) == [second.id]
    with world.database.read() as connection:
        ledger = occurrences.ledger(connection, world.id("tick"), None, 10)
    assert [(line.outcome, line.run_id) for line in ledger] == [("started", second.id), ("expired", first.id)]
    labels = {"outcome": "expired", "source": "schedule"}
    assert metrics.registry.get_sample_value("triggerctl_runs_total", labels) == 1


def test_a_queue_goes_on_past_expired_runs(world: World) -> None:
    """X-18, X-09: under `queue_all` the others keep their order."""
    world.create(schedule={"every": "1m"}, start_within="90s", overlap="queue_all")
    for _ in range(3):
        world.advance(minutes=1)
        world.resync()
    first, second, third = world.runs()
    assert claimed_ids(world) == [second.id]
    world.advance(minutes=2)
    assert claimed_ids(world) == []
    assert [run.status for run in world.runs()] == ["expired", "running", "expired"]
    assert third.id != first.id
