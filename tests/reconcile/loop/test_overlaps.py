"""Overlap policies: occurrences of a trigger that has live runs (X-09)."""

from datetime import timedelta

import pytest

from reconcile.decide.authority import Caller
from revisions.errors import Conflict
from revisions.ids import utc_text
from revisions.store.run_tables import runs
from revisions.store.runs import Run
from tests.world import World, key


def minute(world: World, number: int = 1) -> None:
    """Advance the clock minute by minute, with a resync after each."""
    for _ in range(number):
        world.advance(minutes=1)
        world.resync()


def statuses(world: World) -> list[str]:
    return [run.status for run in world.runs()]


def cancels(world: World) -> list[tuple[bool, bool]]:
    """Return for each run, oldest first, whether its cancellation was requested and whether it is forced."""
    return [(run.cancel_requested_at is not None, run.cancel_forced) for run in world.runs()]


def test_queue_one_keeps_one_run_waiting(world: World) -> None:
    """X-09: one run is live and one waits for its end; further occurrences are skipped."""
    world.create(overlap="queue_one")
    minute(world)
    (first,) = world.claim()
    minute(world, 3)
    assert statuses(world) == ["running", "pending"]
    assert [(skip.outcome, skip.count) for skip in world.skips()] == [("concurrency", 1)] * 2
    assert world.claim() == []
    world.settle(first)
    minute(world)
    assert [run.scheduled_at for run in world.claim()] == [world.runs()[1].scheduled_at]


def test_cancel_requests_the_end_of_the_live_run_and_waits_for_it(world: World) -> None:
    """X-09: a run that has not started is cancelled at once. The new run starts after the live one has ended."""
    world.create(overlap="cancel")
    minute(world)
    (first,) = world.claim()
    minute(world, 2)
    assert statuses(world) == ["running", "cancelled", "pending"]
    assert cancels(world) == [(True, False), (True, False), (False, False)]
    assert world.runs()[0].cancel_requested_by == f"run/{world.runs()[1].id}"
    assert world.claim() == []
    world.settle(first)
    assert [run.id for run in world.claim()] == [world.runs()[2].id]


def test_terminate_forces_the_end_of_the_live_run(world: World) -> None:
    """X-09: the cancellation is forced from the beginning."""
    world.create(overlap="terminate")
    minute(world)
    world.claim()
    minute(world)
    assert cancels(world) == [(True, True), (False, False)]


@pytest.mark.parametrize("overlap", ["cancel", "terminate"])
def test_of_several_due_occurrences_only_the_newest_starts(world: World, overlap: str) -> None:
    """X-09: the others would be cancelled before their start, so they are skipped, those of the backlog too."""
    world.create(overlap=overlap, catchup={"policy": "all"})
    world.advance(minutes=10)
    world.resync()
    world.resync()
    assert [(run.scheduled_at.minute, run.status) for run in world.runs()] == [(10, "pending")]
    assert sum(skip.count or 0 for skip in world.skips()) == 9
    assert {skip.outcome for skip in world.skips()} == {"concurrency"}


@pytest.mark.parametrize("overlap", ["cancel", "terminate"])
def test_of_a_backlog_without_live_occurrences_the_newest_starts(world: World, overlap: str) -> None:
    """X-09: the others are skipped."""
    world.create(overlap=overlap, catchup={"policy": "all"}, schedule={"every": "1m", "until": at(world, 5)})
    world.advance(hours=1)
    world.resync()
    world.resync()
    assert [run.scheduled_at.minute for run in world.runs()] == [5]
    assert [(skip.outcome, skip.count) for skip in world.skips()] == [("concurrency", 4)]


@pytest.mark.parametrize("status", ["waiting", "parked"])
def test_waiting_and_parked_runs_are_live(world: World, status: str) -> None:
    """X-09: like pending and running ones."""
    world.create()
    minute(world)
    set_status(world, world.runs()[0], status)
    minute(world)
    assert [skip.outcome for skip in world.skips()] == ["concurrency"]


@pytest.mark.parametrize(
    ("overlap", "after"),
    [
        ("allow", ["running", "pending"]),
        ("queue_all", ["running", "pending"]),
        ("queue_one", ["running", "pending"]),
        ("cancel", ["running", "pending"]),
        ("terminate", ["running", "pending"]),
    ],
)
def test_a_manual_run_can_have_an_overlap_policy_of_its_own(world: World, overlap: str, after: list[str]) -> None:
    """X-09: it replaces the policy of the trigger, here `skip`, for this run."""
    world.create()
    world.fire(key("tick"), None, Caller("ann"))
    world.claim()
    world.fire(key("tick"), None, Caller("ann"), overlap)
    assert sorted(statuses(world), reverse=True) == after
    assert len(world.claim()) == (overlap == "allow")
    displaced = overlap in ("cancel", "terminate")
    assert sorted(cancels(world))[-1] == (displaced, overlap == "terminate")


def test_a_manual_run_with_queue_one_is_refused_while_a_run_waits(world: World) -> None:
    """X-09: at most one run is live and one waits."""
    world.create()
    for _ in range(2):
        world.fire(key("tick"), None, Caller("ann"), "queue_one")
    with pytest.raises(Conflict, match="goes on, so nothing was fired"):
        world.fire(key("tick"), None, Caller("ann"), "queue_one")


def set_status(world: World, run: Run, status: str) -> None:
    with world.database.write() as connection:
        connection.execute(runs.update().where(runs.c.id == run.id).values(status=status))


def at(world: World, minutes: int) -> str:
    return utc_text(world.start + timedelta(minutes=minutes))
