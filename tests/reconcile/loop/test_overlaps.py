"""What becomes of an occurrence whose trigger has runs that go on."""

from datetime import timedelta

import pytest

from reconcile.decide.authority import Caller
from revisions.errors import Conflict
from revisions.ids import utc_text
from revisions.store.run_tables import runs
from revisions.store.runs import Run
from tests.world import World, key


def minute(world: World, number: int = 1) -> None:
    """So many minutes go by, each with its pass."""
    for _ in range(number):
        world.advance(minutes=1)
        world.resync()


def statuses(world: World) -> list[str]:
    return [run.status for run in world.runs()]


def cancels(world: World) -> list[tuple[bool, bool]]:
    """Of each run, whether it is to be cancelled, and whether by force."""
    return [(run.cancel_requested_at is not None, run.cancel_forced) for run in world.runs()]


def test_queue_one_lets_a_single_run_wait(world: World) -> None:
    """X-09: one goes on and one waits for its end; what comes beside them is skipped."""
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


def test_cancel_asks_what_goes_on_to_end_and_waits_for_it(world: World) -> None:
    """X-09: what has not begun is over at once; the new run begins when the old one has ended."""
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


def test_terminate_does_not_ask(world: World) -> None:
    """X-09: what goes on is ended by force."""
    world.create(overlap="terminate")
    minute(world)
    world.claim()
    minute(world)
    assert cancels(world) == [(True, True), (False, False)]


@pytest.mark.parametrize("overlap", ["cancel", "terminate"])
def test_of_several_at_once_the_newest_takes_the_place(world: World, overlap: str) -> None:
    """X-09: the others would be cancelled before they began; the ledger says so, and what is caught up is no newer."""
    world.create(overlap=overlap, catchup={"policy": "all"})
    world.advance(minutes=10)
    world.resync()
    world.resync()
    assert [(run.scheduled_at.minute, run.status) for run in world.runs()] == [(10, "pending")]
    assert sum(skip.count or 0 for skip in world.skips()) == 9
    assert {skip.outcome for skip in world.skips()} == {"concurrency"}


@pytest.mark.parametrize("overlap", ["cancel", "terminate"])
def test_of_a_backlog_alone_the_newest_starts(world: World, overlap: str) -> None:
    """X-09: where nothing newer goes on."""
    world.create(overlap=overlap, catchup={"policy": "all"}, schedule={"every": "1m", "until": at(world, 5)})
    world.advance(hours=1)
    world.resync()
    world.resync()
    assert [run.scheduled_at.minute for run in world.runs()] == [5]
    assert [(skip.outcome, skip.count) for skip in world.skips()] == [("concurrency", 4)]


@pytest.mark.parametrize("status", ["waiting", "parked"])
def test_waiting_and_parked_runs_count(world: World, status: str) -> None:
    """X-09: as pending and running ones do."""
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
def test_a_fire_may_overlap_as_it_says(world: World, overlap: str, after: list[str]) -> None:
    """X-09: the policy is overridable for one fire; the trigger's own is `skip` here."""
    world.create()
    world.fire(key("tick"), None, Caller("ann"))
    world.claim()
    world.fire(key("tick"), None, Caller("ann"), overlap)
    assert sorted(statuses(world), reverse=True) == after
    assert len(world.claim()) == (overlap == "allow")
    displaced = overlap in ("cancel", "terminate")
    assert sorted(cancels(world))[-1] == (displaced, overlap == "terminate")


def test_a_fire_with_queue_one_is_refused_beside_one_that_waits(world: World) -> None:
    """X-09: one that goes on and one that waits are all there may be."""
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
