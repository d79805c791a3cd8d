"""Order in which starts get rate tokens: live before caught up, projects in turn, none left out (L-09)."""

from collections import Counter
from typing import Any

from reconcile.decide.admission import Pace
from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.loop.due_pass import run_due_pass
from reconcile.loop.replica import ClockGuard
from reconcile.triggers import holds
from reconcile.triggers.deploy import deploy_trigger
from reconcile.triggers.tasks import register_task
from revisions.spec.task import TaskManifest
from revisions.spec.trigger import TriggerManifest
from revisions.store import backlogs as backlog_store
from revisions.store import runs
from tests.world import World, task_document, trigger_document

SLOW = Pace(execution_qps=1.0, execution_burst=10, max_catchup_runs_per_loop=1_000)


def create_in(world: World, project: str, name: str, **spec: Any) -> None:
    task, trigger = task_document(), trigger_document(name, **spec)
    for document in (task, trigger):
        document["metadata"]["project"] = project
    register_task(world.database, world.observations, TaskManifest.read(task), Caller("ann"))
    deploy_trigger(
        world.database, world.observations, TriggerManifest.read(trigger), Expected(absent=True), Caller("ann")
    )


def started(world: World) -> Counter[str]:
    """Return the number of runs by project."""
    with world.database.read() as connection:
        return Counter(run.project for run in runs.page(connection, None, 10_000))


def backlog_left(world: World, name: str) -> bool:
    with world.database.read() as connection:
        return bool(backlog_store.get(connection, [world.id(name)]))


def test_projects_take_turns(world: World) -> None:
    """L-09: the two starts of a small project do not wait for the forty of a big one."""
    for number in range(40):
        create_in(world, "big", f"t{number}", schedule={"every": "1d"})
    for number in range(2):
        create_in(world, "small", f"t{number}", schedule={"every": "1d"})
    world.loop = world.another_loop(SLOW)
    world.advance(days=1)
    world.resync()
    assert started(world) == Counter(big=8, small=2)


def test_projects_take_turns_when_tokens_come_one_by_one(world: World) -> None:
    """L-09: the start of the third project waits for two tokens, not for the sixty starts queued before it."""
    for project in ("one", "two"):
        for number in range(30):
            create_in(world, project, f"t{number}", schedule={"cron": "0 9 * * *"})
    create_in(world, "three", "late", schedule={"cron": "1 9 * * *"})
    world.loop = world.another_loop(Pace(execution_qps=1 / 60, execution_burst=1))
    world.advance(hours=1)
    world.resync()
    for _ in range(7):
        world.advance(minutes=1)
        world.resync()
    assert started(world) == Counter(one=4, two=3, three=1)


def test_a_trigger_with_many_occurrences_does_not_hold_up_its_project(world: World) -> None:
    """L-09: a trigger that gets a token goes to the end of the queue, however many of its occurrences wait."""
    world.create("greedy", schedule={"every": "1s"}, catchup={"policy": "all"}, overlap="allow")
    for number in range(4):
        world.create(f"t{number}", schedule={"every": "30s"}, overlap="allow")
    world.loop = world.another_loop(Pace(execution_qps=0.5, execution_burst=1))
    for _ in range(60):
        world.advance(seconds=2)
        world.loop.resync()
    assert min(len(world.runs(f"t{number}")) for number in range(4)) >= 3
    assert len(world.runs("greedy")) >= 20


def test_a_late_trigger_queues_only_behind_its_own_project(world: World) -> None:
    """L-09: its project still has its turn with one of the next tokens."""
    for number in range(30):
        create_in(world, "big", f"t{number}", schedule={"cron": "0 9 * * *"})
    create_in(world, "small", "late", schedule={"cron": "1 9 * * *"})
    world.loop = world.another_loop(SLOW)
    world.advance(hours=1)
    world.resync()
    assert started(world) == Counter(big=10)
    world.advance(seconds=3)
    world.loop.take_turns()
    assert started(world) == Counter(big=13)
    world.advance(seconds=57)
    world.resync()
    assert started(world)["small"] == 1


def test_a_newly_due_trigger_does_not_overtake_the_queue(world: World) -> None:
    """L-09: a new token goes to a waiting trigger, not to one that becomes due at that moment."""
    for number in range(12):
        world.create(f"t{number:02}", schedule={"cron": "0 9 * * *"})
    world.create("new", schedule={"cron": "1 9 * * *"})
    world.loop = world.another_loop(Pace(execution_qps=1 / 60, execution_burst=10))
    world.advance(hours=1)
    world.resync()
    world.advance(minutes=1)
    world.loop.due([world.id("new")])
    assert world.runs("new") == []
    world.loop.take_turns()
    assert world.runs("new") == []
    assert sum(len(world.runs(f"t{number:02}")) for number in range(12)) == 11


def test_the_result_of_a_due_pass_says_that_a_start_waits_for_a_token(world: World) -> None:
    """L-09, L-10: the loop then serves the queue several times a second, and not only at the next resync."""
    for name in ("a", "b"):
        world.create(name)
    world.advance(minutes=1)
    ids, pace = sorted([world.id("a"), world.id("b")]), Pace(execution_qps=1.0, execution_burst=1)
    first = run_due_pass(world.database, world.observations, pace, ClockGuard(), ids)
    assert (first.started, first.rate_limited) == (1, True)
    world.advance(seconds=1)
    second = run_due_pass(world.database, world.observations, pace, ClockGuard(), ids, in_turn=True)
    assert (second.started, second.rate_limited) == (1, False)


def test_live_starts_come_first_and_backlogs_keep_a_tenth_of_the_rate(world: World) -> None:
    """L-09: while live occurrences need more tokens than there are, backlogs get a tenth of them and no more."""
    world.create("old", catchup={"policy": "all"}, overlap="allow")
    world.advance(minutes=300)
    for number in range(200):
        world.create(f"live{number}", schedule={"every": "1s"}, overlap="allow")
    world.loop = world.another_loop(Pace(execution_qps=10.0, execution_burst=10, max_catchup_runs_per_loop=1_000))
    for _ in range(40):
        world.advance(seconds=1)
        world.resync()
    caught_up = len(world.runs("old"))
    live = sum(len(world.runs(f"live{number}")) for number in range(200))
    assert backlog_left(world, "old")
    assert 390 <= caught_up + live <= 411
    assert 35 <= caught_up <= 50


def test_backlogs_use_all_tokens_that_live_starts_leave(world: World) -> None:
    """L-09: without live starts a backlog uses the whole rate."""
    world.create("old", catchup={"policy": "all"}, overlap="allow")
    world.advance(minutes=300)
    world.loop = world.another_loop(Pace(execution_qps=10.0, execution_burst=10, max_catchup_runs_per_loop=1_000))
    for _ in range(5):
        world.advance(seconds=1)
        world.resync()
    assert len(world.runs("old")) >= 45


def test_a_frozen_project_does_not_hold_up_the_others(world: World) -> None:
    """S-13, L-09: triggers that are frozen while they wait for a token leave the queue."""
    for number in range(20):
        create_in(world, "big", f"t{number}", schedule={"cron": "0 9 * * *"})
    create_in(world, "small", "late", schedule={"cron": "5 9 * * *"})
    world.loop = world.another_loop(Pace(execution_qps=0.01, execution_burst=10))
    world.advance(hours=1)
    world.resync()
    holds.freeze(world.database, world.observations, "big", None, Caller("ann", "incident"))
    world.advance(minutes=5)
    world.resync()
    assert started(world) == Counter(big=10, small=1)
