"""Runs that need approval: parked, approved, rejected."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reconcile.decide.authority import Caller
from reconcile.observations.runs import RunApproved
from reconcile.runs.runner import Runner, RunnerSettings
from revisions.errors import Conflict, NotFound
from revisions.ids import fresh
from revisions.outcomes import OccurrenceOutcome
from revisions.store import occurrences, run_orders
from revisions.store.runs import Run
from tests.observing import only
from tests.reconcile.scripted import ScriptedLauncher
from tests.world import World, key

ANN, BOB = Caller("ann"), Caller("bob")


class Scene:
    """A world with a runner."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.launcher = ScriptedLauncher()
        self.runner = Runner(
            world.database,
            world.observations,
            {"process": self.launcher},
            settings=RunnerSettings(folder / "work", folder),
        )

    def parked(self, minutes: int = 1, **spec: Any) -> list[Run]:
        """Create a trigger that requires approval, and return its runs after some minutes."""
        self.world.create(**{"requires_approval": True, "overlap": "allow", **spec})
        for _ in range(minutes):
            self.minute()
        return self.world.runs()

    def minute(self) -> None:
        self.world.advance(minutes=1)
        self.world.resync()

    def reject(self, run: Run, reason: str = "") -> Run:
        with self.world.database.write() as connection:
            rejected = run_orders.request_cancel(connection, run.id, self.world.clock_now(), "bob", reason)
        assert rejected is not None
        return rejected

    def claimed(self) -> int:
        return self.runner.run_pass().claimed

    def ledger(self) -> list[OccurrenceOutcome]:
        """Return the outcomes of the trigger's occurrences, oldest first."""
        with self.world.database.read() as connection:
            lines = occurrences.ledger(connection, self.world.id("tick"), None, 100)
        return [line.outcome for line in lines][::-1]

    def statuses(self) -> list[str]:
        return [run.status for run in self.world.runs()]


@pytest.fixture
def scene(world: World, tmp_path: Path) -> Scene:
    return Scene(world, tmp_path)


def test_a_run_that_needs_approval_is_parked_until_it_is_approved(scene: Scene) -> None:
    """X-14: no runner claims it; the ledger shows it as parked, and as started once it was approved."""
    [run] = scene.parked()
    assert (run.status, scene.claimed(), scene.ledger()) == ("parked", 0, ["parked"])
    assert (scene.world.status().last_outcome, scene.world.status().last_run_id) == ("parked", run.id)
    scene.world.advance(seconds=10)
    approved = scene.world.approve(run.id, BOB)
    assert (approved.status, approved.approved_by, approved.approved_at) == ("pending", "bob", scene.world.clock_now())
    assert (scene.ledger(), scene.world.status().last_outcome) == (["started"], "started")
    assert scene.claimed() == 1
    scene.launcher.last.succeed()
    scene.runner.run_pass()
    assert scene.statuses() == ["succeeded"]
    assert [approved.actor for approved in only(RunApproved, scene.world.observed)] == ["bob"]


def test_a_task_version_may_require_approval(scene: Scene) -> None:
    """X-14: for all triggers bound to it, whatever starts their runs."""
    scene.world.register("v2", requires_approval=True)
    scene.world.create(task_version="v2", overlap="allow")
    scene.world.fire(key("tick"), None, ANN)
    assert scene.world.status().last_outcome == "parked"
    scene.minute()
    scene.world.backfill(-2, 0)
    assert scene.statuses() == ["parked"] * 4
    assert scene.world.status().last_outcome == "parked"
    assert scene.claimed() == 0
    scene.world.update("tick", 1, overlap="allow")
    scene.minute()
    assert scene.statuses() == ["parked"] * 4 + ["pending"]


def test_approving_an_older_run_leaves_the_last_outcome(scene: Scene) -> None:
    """X-14, E-05: the trigger's status shows the outcome of its newest occurrence."""
    first, _ = scene.parked(2)
    scene.world.approve(first.id, BOB)
    assert scene.world.status().last_outcome == "parked"
    assert scene.ledger() == ["started", "parked"]


@pytest.mark.parametrize(("overlap", "made"), [("skip", 1), ("queue_one", 2), ("allow", 3)])
def test_a_parked_run_counts_for_the_overlap_policy(scene: Scene, overlap: str, made: int) -> None:
    """X-14, X-09: as a pending one does."""
    assert len(scene.parked(3, overlap=overlap)) == made


def test_a_parked_run_holds_no_limit_and_no_key(scene: Scene) -> None:
    """X-14, X-04: an approved run starts beside parked ones."""
    _, second = scene.parked(2, concurrency={"limit": 1}, serialize_key="k")
    scene.world.approve(second.id, BOB)
    assert (scene.claimed(), scene.statuses()) == (1, ["parked", "running"])


def test_a_parked_run_keeps_its_place_in_the_queue(scene: Scene) -> None:
    """X-14, X-09: later runs wait until it is approved or rejected, earlier ones do not."""
    first, second, third = scene.parked(3, overlap="queue_all", catchup={"policy": "all"})
    scene.world.approve(second.id, BOB)
    assert scene.claimed() == 0
    scene.world.approve(first.id, BOB)
    assert (scene.claimed(), scene.statuses()) == (1, ["running", "pending", "parked"])
    scene.launcher.last.succeed()
    assert (scene.claimed(), scene.statuses()) == (1, ["succeeded", "running", "parked"])
    scene.minute()
    fourth = scene.world.runs()[-1]
    scene.world.approve(fourth.id, BOB)
    scene.launcher.last.succeed()
    assert scene.claimed() == 0
    scene.reject(third)
    assert (scene.claimed(), scene.statuses()) == (1, ["succeeded", "succeeded", "cancelled", "running"])


def test_a_newer_run_cancels_a_parked_one(scene: Scene) -> None:
    """X-14, X-09: under the overlap policy `cancel`."""
    scene.parked(2, overlap="cancel")
    assert scene.statuses() == ["cancelled", "parked"]


def test_start_within_counts_from_the_approval(scene: Scene) -> None:
    """X-14, X-18: however late that comes; a backfilled run never expires."""
    [run] = scene.parked(start_within="1m")
    scene.world.advance(hours=5)
    assert scene.claimed() == 0
    assert scene.world.runs()[0].status == "parked"
    approved = scene.world.approve(run.id, BOB)
    assert approved.start_by == scene.world.clock_now() + timedelta(minutes=1)
    scene.world.backfill(-1, 0)
    backfilled = scene.world.approve(scene.world.runs()[0].id, BOB)
    assert (backfilled.source, backfilled.start_by) == ("backfill", None)
    scene.world.advance(seconds=61)
    scene.claimed()
    assert scene.statuses() == ["running", "expired"]


def test_a_rejected_run_never_starts_and_shows_who_rejected_it(scene: Scene) -> None:
    """X-14: the ledger keeps it as parked; retried, it needs approval again."""
    [run] = scene.parked()
    rejected = scene.reject(run, "wrong client")
    assert (rejected.status, rejected.error) == ("cancelled", "rejected by bob: wrong client")
    assert scene.ledger() == ["parked"]
    with pytest.raises(Conflict, match="is cancelled, so there is nothing to approve"):
        scene.world.approve(run.id, BOB)
    retried = scene.world.retry(run.id, ANN)
    assert (retried.status, scene.claimed()) == ("parked", 0)
    scene.world.approve(run.id, BOB)
    assert scene.claimed() == 1


def test_an_approved_run_is_retried_without_another_approval(scene: Scene) -> None:
    """X-14, X-11: the approval was for this run, and it has not changed."""
    [run] = scene.parked(retry={"max_attempts": 1})
    scene.world.approve(run.id, BOB)
    scene.claimed()
    scene.launcher.last.fail()
    scene.runner.run_pass()
    assert scene.world.retry(run.id, ANN).status == "pending"


def test_approving_a_live_run_changes_nothing(scene: Scene) -> None:
    """X-14: a second time, while it runs, and when no approval was needed; the first approver stays."""
    [run] = scene.parked()
    scene.world.approve(run.id, BOB)
    assert scene.world.approve(run.id, ANN).approved_by == "bob"
    scene.claimed()
    assert scene.world.approve(run.id, ANN).status == "running"
    scene.launcher.last.succeed()
    scene.runner.run_pass()
    with pytest.raises(Conflict, match="is succeeded"):
        scene.world.approve(run.id, ANN)
    with pytest.raises(NotFound):
        scene.world.approve(fresh(scene.world.clock_now()), ANN)
    scene.world.create("free")
    free = scene.world.fire(key("free"), None, ANN)
    assert scene.world.approve(free.id, BOB).approved_by is None
