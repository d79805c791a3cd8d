"""Keys and limits at the claim."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from reconcile.revising import Caller
from reconcile.rules.retry import Outcome
from revisions.store import runs, triggers
from revisions.store.runs import Run
from revisions.store.tables import runs as table
from tests.rows import new_run
from tests.world import World, key


@pytest.fixture(autouse=True)
def registered(world: World) -> None:
    world.register("v2", concurrency={"limit": 2})


def fire(world: World, name: str, number: int = 1) -> list[str]:
    """Runs by hand, beside each other as far as keys and limits let them."""
    return [world.firing.fire(key(name), None, Caller("ann"), "allow").id for _ in range(number)]


def names(world: World, claimed: list[Run]) -> list[str]:
    with world.database.read() as connection:
        found = triggers.keys(connection, [run.trigger_id for run in claimed])
    return [found[run.trigger_id].name for run in claimed]


def test_runs_that_share_a_key_run_one_at_a_time(world: World) -> None:
    """X-04: over triggers, oldest first; a run without the key is not held up."""
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
    """X-04, X-07: a run that waits for its next attempt holds no key."""
    world.create("a", serialize_key="k")
    first, second = fire(world, "a", 2)
    (run,) = world.claim()
    assert run.id == first
    world.settle(run, Outcome.FAILED)
    assert [one.id for one in world.claim()] == [second]


def test_a_key_means_something_in_its_project_alone(world: World) -> None:
    """X-04: a key of one project holds nobody up in another."""
    world.create("a", serialize_key="k")
    other = new_run_of(world, "a", project="other")
    mine = fire(world, "a")
    assert [run.id for run in world.claim()] == [other, *mine]


def test_no_two_runs_hold_a_key_whoever_wrote_them(world: World) -> None:
    """X-04: the database refuses it, too."""
    world.create("a", serialize_key="k")
    fire(world, "a", 2)
    world.claim()
    with pytest.raises(IntegrityError), world.database.write() as connection:
        connection.execute(table.update().values(status="running"))


def test_a_trigger_and_a_task_have_their_limits(world: World) -> None:
    """X-04: `concurrency.limit` of a trigger bounds its own runs, that of a task version the runs of all."""
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


def test_what_waits_behind_a_full_key_does_not_hold_up_the_rest(world: World) -> None:
    """X-04: however deep the queue before it is."""
    world.create("a", serialize_key="k")
    world.create("b", concurrency={"limit": 1})
    world.create("free")
    with world.database.write() as connection:
        for trigger, bounds in (("a", {"serialize_key": "k"}), ("b", {"trigger_limit": 1})):
            deep = [new(world, trigger, **bounds) for _ in range(700)]
            runs.create(connection, deep)
    world.advance(seconds=1)
    fire(world, "free")
    assert names(world, world.claim()) == ["a", "b", "free"]


def test_limits_and_keys_are_exact_under_twenty_claimers(world: World) -> None:
    """X-04: twenty threads that claim and settle never exceed a limit nor double a key, and leave nothing behind."""
    world.create("a", serialize_key="one")
    world.create("b", concurrency={"limit": 2})
    world.create("c", task_version="v2")
    with world.database.write() as connection:
        for trigger, bounds in (("a", {"serialize_key": "one"}), ("b", {"trigger_limit": 2}), ("c", {"task_limit": 3})):
            runs.create(connection, [new(world, trigger, **bounds) for _ in range(12)])
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


def new(world: World, name: str, **values: Any) -> runs.NewRun:
    with world.database.read() as connection:
        trigger = triggers.get(connection, key(name))
    assert trigger is not None
    return new_run(trigger, world.clock_now(), **values)


def new_run_of(world: World, name: str, **values: Any) -> str:
    one = new(world, name, serialize_key="k", **values)
    with world.database.write() as connection:
        runs.create(connection, [one])
    return one.id
