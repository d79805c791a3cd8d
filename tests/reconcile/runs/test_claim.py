"""Serialize keys and concurrency limits when runs are claimed."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import IntegrityError

from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.queries import explain
from reconcile.triggers.deploy import rollback_trigger
from revisions.store import runs, triggers
from revisions.store.run_tables import runs as table
from revisions.store.runs import Run
from tests.rows import new_run
from tests.waiting import eventually
from tests.world import World, key


@pytest.fixture(autouse=True)
def registered(world: World) -> None:
    world.register("v2", concurrency={"limit": 2})


def fire(world: World, name: str, number: int = 1) -> list[str]:
    """Create manual runs that may run at the same time, as far as keys and limits allow, and return their ids."""
    return [world.fire(key(name), None, Caller("ann"), "allow").id for _ in range(number)]


def names(world: World, claimed: list[Run]) -> list[str]:
    with world.database.read() as connection:
        keys = triggers.keys(connection, [run.trigger_id for run in claimed])
    return [keys[run.trigger_id].name for run in claimed]


def test_runs_that_share_a_key_run_one_at_a_time(world: World) -> None:
    """X-04: also over triggers, oldest first; a run without the key does not wait."""
    world.create("a", serialize_key="acme-report")
    world.create("b", serialize_key="acme-report")
    world.create("free")
    first, second, third = *fire(world, "a"), *fire(world, "b"), *fire(world, "free")
    claimed = world.claim()
    assert [run.id for run in claimed] == [first, third]
    assert world.claim() == []
    world.settle(claimed[0])
    assert [run.id for run in world.claim()] == [second]


def test_a_key_is_free_between_two_attempts(world: World) -> None:
    """X-04, X-07: a run that waits for its next attempt does not hold it."""
    world.create("a", serialize_key="k")
    first, second = fire(world, "a", 2)
    (run,) = world.claim()
    assert run.id == first
    world.settle(run, AttemptOutcome.FAILED)
    assert [run.id for run in world.claim()] == [second]


def test_projects_do_not_share_keys(world: World) -> None:
    """X-04: the same key in two projects is two keys."""
    world.create("a", serialize_key="k")
    (other,) = queue(world, project="other", a=1)
    own = fire(world, "a")
    assert [run.id for run in world.claim()] == [other, *own]


def test_the_database_refuses_a_second_run_with_a_key(world: World) -> None:
    """X-04: whatever statement writes it."""
    world.create("a", serialize_key="k")
    fire(world, "a", 2)
    world.claim()
    with pytest.raises(IntegrityError), world.database.write() as connection:
        connection.execute(table.update().values(status="running", serialize_key="k"))


def test_triggers_and_tasks_limit_their_runs(world: World) -> None:
    """X-04: `concurrency.limit` of a trigger limits its own runs, that of a task version all runs of the version."""
    world.create("a", concurrency={"limit": 1})
    world.create("b", task_version="v2")
    world.create("c", task_version="v2")
    for name in ("a", "b", "c"):
        fire(world, name, 2)
    first = world.claim()
    assert names(world, first) == ["a", "b"]
    assert world.claim() == []
    world.settle(first[0])
    assert names(world, world.claim()) == ["a"]


def test_runs_that_wait_for_a_key_do_not_hold_up_others(world: World) -> None:
    """X-04: however many of them wait before the others."""
    world.create("a", serialize_key="k")
    world.create("b", concurrency={"limit": 1})
    world.create("free")
    queue(world, a=700, b=700)
    world.advance(seconds=1)
    fire(world, "free")
    assert names(world, world.claim()) == ["a", "b", "free"]


def test_limits_and_keys_are_exact_under_twenty_claimers(world: World) -> None:
    """X-04: twenty threads that claim and settle exceed no limit, share no key, and leave no run behind."""
    world.create("a", serialize_key="one")
    world.create("b", concurrency={"limit": 2})
    world.create("c", task_version="v2")
    queue(world, a=12, b=12)
    queue(world, c=12, task_limit=3)
    most, barrier = Counter[str](), threading.Barrier(20)
    ids = {world.id(name): name for name in "abc"}
    lock = threading.Lock()

    def work(number: int) -> int:
        barrier.wait()
        done = 0
        while True:
            with world.database.read() as connection:
                live = Counter(map(tuple, connection.execute(select(table.c.trigger_id, table.c.status))))
            for trigger_id, name in ids.items():
                with lock:
                    most[name] = max(most[name], live[trigger_id, "running"])
            if not any(status in ("pending", "running") for _, status in live):
                return done
            for run in world.claim(limit=2, max_running=6, by=f"worker-{number}"):
                world.settle(run)
                done += 1

    with ThreadPoolExecutor(20) as threads:
        assert sum(threads.map(work, range(20))) == 36
    assert most["a"] <= 1
    assert most["b"] <= 2
    assert most["c"] <= 3
    assert {run.attempt for name in "abc" for run in world.runs(name)} == {1}


def limit(number: int) -> dict[str, Any]:
    return {"concurrency": {"limit": number}}


@pytest.mark.parametrize("overlap", ["allow", "queue_all"])
def test_a_lowered_limit_applies_to_pending_runs_at_once(world: World, overlap: str) -> None:
    """X-04: whichever revision made them; running ones go on, and none starts until they are below the limit."""
    world.create("a", overlap=overlap, **limit(3))
    fire(world, "a", 6)
    running = world.claim()
    world.update("a", 1, overlap=overlap, **limit(2))
    assert (len(running), world.claim()) == (3, [])
    world.settle(running[0])
    assert world.claim() == []
    world.settle(running[1])
    assert len(world.claim()) == 1


def test_a_raised_or_removed_limit_frees_pending_runs(world: World) -> None:
    """X-04: a rollback brings the limit back; a pause, a rename and a deletion do not change it."""
    world.create("a", **limit(1))
    fire(world, "a", 9)
    assert len(world.claim()) == 1
    world.update("a", 1, **limit(2))
    assert len(world.claim()) == 1
    world.update("a", 2)
    assert len(world.claim(limit=2)) == 2
    rollback_trigger(world.database, world.observations, key("a"), 1, Expected(revision=3), Caller("ann"))
    assert world.claim() == []
    world.deactivate("a", 4)
    world.rename("a", "b", 5)
    world.delete("b", 6)
    assert world.claim() == []
    with world.database.read() as connection:
        assert explain.told(connection, world.runs("b")[-1], world.clock_now()).endswith("(concurrency.limit 1)")


def test_a_changed_key_applies_to_pending_runs(world: World) -> None:
    """X-04: a running run keeps the key with which it was claimed."""
    world.create("a")
    world.create("b", serialize_key="k")
    fire(world, "a", 3)
    fire(world, "b")
    (first,) = world.claim(limit=1)
    world.update("a", 1, serialize_key="k")
    (second,) = world.claim(limit=1)
    assert (first.serialize_key, second.serialize_key) == (None, "k")
    assert world.claim() == []
    world.update("a", 2)
    assert names(world, world.claim()) == ["a"]
    world.settle(second)
    assert names(world, world.claim()) == ["b"]


def test_later_attempts_keep_to_the_current_limit(world: World) -> None:
    """X-04, X-07: between two attempts and after a manual retry a run waits like any other."""
    world.create("a", retry={"max_attempts": 2})
    first, second, _ = fire(world, "a", 3)
    failing, failed, _ = world.claim()
    world.settle(failing, AttemptOutcome.FAILED)
    world.settle(failed, AttemptOutcome.CANCELLED)
    world.update("a", 1, **limit(1))
    world.retry(second, Caller("ann"))
    world.advance(seconds=5)
    assert world.claim() == []
    assert {run.id for run in world.runs("a") if run.status == "pending"} == {first, second}


def test_no_run_is_claimed_under_a_limit_that_was_lowered(world: World) -> None:
    """X-04: a deploy waits for a claim in progress, and the next claim sees the new limit."""
    world.create("a")
    fire(world, "a", 2)
    with ThreadPoolExecutor(1) as other:
        with world.database.write() as connection:
            runs.lock_queue(connection)
            lowering = other.submit(world.update, "a", 1, **limit(1))
            eventually(lambda: is_queue_lock_awaited(world))
            assert not lowering.done()
        assert lowering.result().changed
    assert len(world.claim()) == 1


def is_queue_lock_awaited(world: World) -> bool:
    """Return whether a transaction waits for the queue's lock; on SQLite every writer waits for the current one."""
    if world.database.is_sqlite:
        return True
    with world.database.read() as connection:
        waiting = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        return bool(connection.execute(waiting).scalar())


def test_a_task_versions_limit_counts_the_runs_of_all_versions(world: World) -> None:
    """X-04, R-23: each version keeps the limit with which it was registered.

    Runs of a stricter version wait for those of a laxer one, which do not wait for them.
    """
    world.register("v3", concurrency={"limit": 1})
    world.create("lax", task_version="v2")
    world.create("strict", task_version="v3")
    fire(world, "lax")
    (run,) = world.claim()
    fire(world, "strict", 2)
    assert world.claim() == []
    fire(world, "lax")
    assert names(world, world.claim()) == ["lax"]
    world.settle(run)
    assert world.claim() == []


def test_a_run_keeps_the_task_version_and_the_overlap_policy_of_its_revision(world: World) -> None:
    """X-04, X-09: a deploy changes neither for pending runs, unlike `concurrency.limit`."""
    world.create("a", task_version="v2", overlap="allow")
    world.advance(minutes=1)
    world.resync()
    world.advance(minutes=1)
    world.resync()
    world.update("a", 1, overlap="queue_all")
    assert [(run.task_version, run.overlap) for run in world.claim()] == [("v2", "allow")] * 2


def queue(world: World, *, task_limit: int | None = None, project: str = "acme", **numbers: int) -> list[str]:
    """Create pending runs, the given number for each trigger, and return their ids."""
    with world.database.write() as connection:
        by_name = {name: triggers.get(connection, key(name)) for name in numbers}
        now = world.clock.now(connection)
        new = [
            new_run(trigger, now, task_limit=task_limit, project=project)
            for name, trigger in by_name.items()
            for _ in range(numbers[name])
            if trigger
        ]
        runs.create(connection, new)
    return [run.id for run in new]
