"""Retrying runs that ended badly (X-11), and the list of runs that failed for good (X-16)."""

from datetime import timedelta

import pytest

from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.decide.authority import Caller
from reconcile.observations.runs import RunRetriedByHand
from reconcile.runs.attempt import Ended
from reconcile.runs.settle import settle
from reconcile.triggers import holds
from revisions.errors import Conflict, NotFound
from revisions.store import logs, run_orders, runs
from revisions.store.logs import LogPiece
from revisions.store.runs import Run
from tests.observing import only
from tests.world import World, key

ANN = Caller("ann")
LEASE = timedelta(seconds=60)
BROKEN, DONE = Ended(AttemptOutcome.FAILED, "broken"), Ended(AttemptOutcome.SUCCEEDED, output={})


def fired(world: World, name: str = "tick") -> Run:
    return world.fire(key(name), None, ANN, "allow")


def attempted(world: World, ended: Ended, printed: bytes = b"") -> Run:
    """Claim the next run of the queue, settle it, and return it."""
    world.advance(minutes=10)
    (run,) = world.claim(limit=1)
    settle(world.database, world.observations, run, ended, [LogPiece(0, printed)])
    return get(world, run)


def failed(world: World, name: str = "tick") -> Run:
    """Return a run that failed in its only attempt."""
    fired(world, name)
    return attempted(world, BROKEN)


def get(world: World, run: Run) -> Run:
    with world.database.read() as connection:
        found = runs.get(connection, run.id)
    assert found is not None
    return found


def dead(world: World) -> list[str]:
    with world.database.read() as connection:
        return [run.id for run in runs.page(connection, None, 100, dead=True)]


def test_a_retried_run_gets_all_its_attempts_again(world: World) -> None:
    """X-07, X-11: as its own revision allows; attempt numbers go on, so that each has its own log."""
    world.create(retry={"max_attempts": 2})
    run = fired(world)
    attempted(world, BROKEN, b"first")
    assert attempted(world, BROKEN, b"second").status == "failed"
    retried = world.retry(run.id, ANN)
    assert (retried.id, retried.status, retried.attempt, retried.max_attempts) == (run.id, "pending", 2, 4)
    assert (retried.available_at, retried.finished_at) == (world.clock_now(), None)
    assert attempted(world, BROKEN, b"third").status == "pending"
    assert attempted(world, BROKEN, b"fourth").status == "failed"
    with world.database.read() as connection:
        printed = [logs.read(connection, run.id, attempt).head for attempt in (1, 2, 3, 4)]
    assert printed == [b"first", b"second", b"third", b"fourth"]


def test_a_retried_run_may_succeed(world: World) -> None:
    """X-06, X-11: that resets the trigger's failures."""
    world.create(retry={"max_attempts": 1})
    run = failed(world)
    assert world.status().consecutive_failures == 1
    world.retry(run.id, ANN)
    assert attempted(world, DONE).status == "succeeded"
    assert (world.status().consecutive_failures, world.status().last_error) == (0, None)


def test_retrying_a_cancelled_run_clears_the_cancellation(world: World) -> None:
    """X-11: it runs again with all its attempts."""
    world.create()
    run = fired(world)
    with world.database.write() as connection:
        run_orders.request_cancel(connection, run.id, world.clock.now(connection), "bob")
    retried = world.retry(run.id, ANN)
    assert (retried.cancel_requested_at, retried.cancel_requested_by, retried.max_attempts) == (None, None, 3)
    assert attempted(world, BROKEN).status == "pending"


def test_a_live_or_succeeded_run_cannot_be_retried(world: World) -> None:
    """X-11: so a second retry of one run is a conflict too."""
    world.create(retry={"max_attempts": 1})
    run = fired(world)
    with pytest.raises(Conflict, match="is pending"):
        world.retry(run.id, ANN)
    attempted(world, BROKEN)
    world.retry(run.id, ANN)
    with pytest.raises(Conflict, match="is pending"):
        world.retry(run.id, ANN)
    attempted(world, DONE)
    with pytest.raises(Conflict, match="has succeeded"):
        world.retry(run.id, ANN)


def test_a_retry_needs_an_existing_trigger_and_no_freeze(world: World) -> None:
    """X-11, S-13: an inactive trigger is enough."""
    world.create(retry={"max_attempts": 1})
    run, other = failed(world), failed(world)
    world.deactivate("tick", 1)
    assert world.retry(run.id, ANN).status == "pending"
    holds.freeze(world.database, world.observations, "acme", None, Caller("bob", "stocktaking"))
    with pytest.raises(Conflict, match="stocktaking"):
        world.retry(other.id, ANN)
    holds.unfreeze(world.database, world.observations, "acme", ANN)
    world.delete("tick", 2)
    with pytest.raises(NotFound, match="deleted"):
        world.retry(other.id, ANN)
    with pytest.raises(NotFound):
        world.retry("01KJ0000000000000000000000", ANN)


def test_a_retried_run_waits_when_it_may_not_run_beside_others(world: World) -> None:
    """X-09: under `skip` the schedule would skip it; retried, it waits for the live run."""
    world.create(retry={"max_attempts": 1})
    world.advance(minutes=1)
    world.resync()
    [run] = world.runs()
    assert attempted(world, BROKEN).status == "failed"
    world.fire(key("tick"), None, ANN)
    world.claim(limit=1, by="w")
    assert world.retry(run.id, ANN).overlap == "queue_all"
    assert world.claim(limit=1) == []


def test_a_retry_is_observed_with_its_actor(world: World) -> None:
    """Invariant 7: with the trigger's name, and the last attempt and status before."""
    world.create(retry={"max_attempts": 1})
    run = failed(world)
    world.retry(run.id, ANN)
    [retried] = only(RunRetriedByHand, world.observed)
    assert retried.facts() == {
        "trigger": key("tick"),
        "run_id": run.id,
        "attempt": 1,
        "ended_as": "failed",
        "actor": "ann",
    }


@pytest.mark.parametrize("ended", ["expired", "cancelled"])
def test_start_within_counts_again_after_a_retry(world: World, ended: str) -> None:
    """X-16, X-18: a run that expired, or was cancelled before it started, is not too late again."""
    world.create(start_within="5m", retry={"max_attempts": 1})
    run = fired(world)
    if ended == "cancelled":
        with world.database.write() as connection:
            run_orders.request_cancel(connection, run.id, world.clock.now(connection), "bob")
    world.advance(minutes=6)
    assert world.claim() == []
    assert get(world, run).status == ended
    retried = world.retry(run.id, ANN)
    assert (retried.status, retried.start_by) == ("pending", world.clock_now() + timedelta(minutes=5))
    assert [claimed.id for claimed in world.claim()] == [run.id]


def test_dead_letters_are_runs_that_failed_for_good(world: World) -> None:
    """X-16: newest first; not the cancelled, the succeeded, and those retried since."""
    world.create(retry={"max_attempts": 1})
    first, second = failed(world), failed(world)
    fired(world)
    attempted(world, DONE)
    fired(world)
    late = attempted(world, Ended(AttemptOutcome.TIMED_OUT))
    cancelled = fired(world)
    with world.database.write() as connection:
        run_orders.request_cancel(connection, cancelled.id, world.clock.now(connection), "bob")
    assert dead(world) == [late.id, second.id, first.id]
    world.retry(second.id, ANN)
    assert dead(world) == [late.id, first.id]
