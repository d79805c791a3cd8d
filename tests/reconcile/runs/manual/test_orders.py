"""Runs that ended badly, run again by hand (X-11), and those that failed for good (X-16)."""

from datetime import timedelta

import pytest

from reconcile.decide.retry import AttemptOutcome
from reconcile.observations.runs import RunRetriedByHand
from reconcile.runs.attempt import Ended
from reconcile.runs.settle import settle
from reconcile.triggers.caller import Caller
from reconcile.triggers.holds import Holds
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
    """The run whose turn it is, claimed and settled at once."""
    world.advance(minutes=10)
    (run,) = world.claim(limit=1)
    settle(world.database, world.observations, run, ended, [LogPiece(0, printed)])
    return get(world, run)


def failed(world: World, name: str = "tick") -> Run:
    """One that has used up its single attempt."""
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


def test_a_failed_run_has_as_many_attempts_again(world: World) -> None:
    """X-07, X-11: the same run, as its own revision allows it; the numbers go on, so that each log stays apart."""
    world.create(retry={"max_attempts": 2})
    run = fired(world)
    attempted(world, BROKEN, b"first")
    assert attempted(world, BROKEN, b"second").status == "failed"
    again = world.retry(run.id, ANN)
    assert (again.id, again.status, again.attempt, again.max_attempts) == (run.id, "pending", 2, 4)
    assert (again.available_at, again.finished_at) == (world.clock_now(), None)
    assert attempted(world, BROKEN, b"third").status == "pending"
    assert attempted(world, BROKEN, b"fourth").status == "failed"
    with world.database.read() as connection:
        printed = [logs.read(connection, run.id, attempt).head for attempt in (1, 2, 3, 4)]
    assert printed == [b"first", b"second", b"third", b"fourth"]


def test_it_may_succeed_then(world: World) -> None:
    """X-06, X-11: and the trigger's failures are over."""
    world.create(retry={"max_attempts": 1})
    run = failed(world)
    assert world.status().consecutive_failures == 1
    world.retry(run.id, ANN)
    assert attempted(world, DONE).status == "succeeded"
    assert (world.status().consecutive_failures, world.status().last_error) == (0, None)


def test_a_cancelled_run_is_no_longer_to_be_cancelled(world: World) -> None:
    """X-11: it runs to its end once more, with all its attempts."""
    world.create()
    run = fired(world)
    with world.database.write() as connection:
        run_orders.request_cancel(connection, run.id, world.clock.now(connection), "bob")
    again = world.retry(run.id, ANN)
    assert (again.cancel_requested_at, again.cancel_requested_by, again.max_attempts) == (None, None, 3)
    assert attempted(world, BROKEN).status == "pending"


def test_what_goes_on_or_succeeded_is_left_alone(world: World) -> None:
    """X-11: pending, running and succeeded runs; so that a second retry of one run is a conflict too."""
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


def test_whose_run_may_not_be_retried(world: World) -> None:
    """X-11, S-13: one of an inactive trigger may; not one that is not there, of a deleted one, or under a freeze."""
    world.create(retry={"max_attempts": 1})
    run, other = failed(world), failed(world)
    world.deactivate("tick", 1)
    assert world.retry(run.id, ANN).status == "pending"
    holding = Holds(world.database, world.observations)
    holding.freeze("acme", None, Caller("bob", "stocktaking"))
    with pytest.raises(Conflict, match="stocktaking"):
        world.retry(other.id, ANN)
    holding.unfreeze("acme", ANN)
    world.delete("tick", 2)
    with pytest.raises(NotFound, match="deleted"):
        world.retry(other.id, ANN)
    with pytest.raises(NotFound):
        world.retry("01KJ0000000000000000000000", ANN)


def test_it_does_not_start_beside_another_where_that_was_not_allowed(world: World) -> None:
    """X-09: what is skipped beside a live run by schedule waits for that one's end when it is retried."""
    world.create(retry={"max_attempts": 1})
    world.advance(minutes=1)
    world.resync()
    [run] = world.runs()
    assert attempted(world, BROKEN).status == "failed"
    world.fire(key("tick"), None, ANN)
    world.claim(limit=1, by="w")
    assert world.retry(run.id, ANN).overlap == "queue_all"
    assert world.claim(limit=1) == []


def test_who_retried_is_told(world: World) -> None:
    """Invariant 7: with the trigger's name, the attempt that was its last, and how that ended."""
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
def test_what_never_began_has_its_time_to_start_within_anew(world: World, ended: str) -> None:
    """X-16, X-18: what came too late once is not too late again; it begins when there is room."""
    world.create(start_within="5m", retry={"max_attempts": 1})
    run = fired(world)
    if ended == "cancelled":
        with world.database.write() as connection:
            run_orders.request_cancel(connection, run.id, world.clock.now(connection), "bob")
    world.advance(minutes=6)
    assert world.claim() == []
    assert get(world, run).status == ended
    again = world.retry(run.id, ANN)
    assert (again.status, again.start_by) == ("pending", world.clock_now() + timedelta(minutes=5))
    assert [one.id for one in world.claim()] == [run.id]


def test_dead_letters_are_what_failed_for_good(world: World) -> None:
    """X-16: newest first; not what was cancelled, what succeeded, and what was retried since."""
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
