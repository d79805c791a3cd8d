"""All operations that lock rows, concurrently: no deadlock, no gap, no wrong count, no run that should not exist."""

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reconcile.decide.preconditions import Expected
from reconcile.triggers.activation import delete_trigger
from reconcile.triggers.append import Changed
from reconcile.triggers.deploy import deploy_trigger
from reconcile.triggers.tasks import register_task
from revisions.errors import PreconditionFailed
from revisions.spec.task import TaskManifest
from revisions.spec.trigger import TriggerManifest
from revisions.store import triggers
from revisions.store.database import ServerClock
from tests.races.crowd import at_once
from tests.races.replica import ANN, Replica
from tests.races.truth import faults
from tests.waiting import PATIENCE
from tests.world import key, task_document, trigger_document

SECONDS = 3.0
REQUIRED = {"deploy", "delete task", "fire", "resync", "work"}
"""Operations that must succeed at least once; all others may be refused each time."""
WRITERS = 64
NAMES = [f"tick-{number}" for number in range(12)]
VERSIONS = ["v1", "v2", "v3"]


@pytest.fixture(autouse=True)
def _frequent_thread_switches() -> Iterator[None]:
    """Switch threads often, so that no thread waits long for its turn while it holds locks."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0002)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def replicas(database_url: str, tmp_path: Path) -> Iterator[list[Replica]]:
    """Two replicas, as of two processes, and three task versions."""
    replicas = [Replica(database_url, tmp_path / f"work-{number}", NAMES, VERSIONS) for number in range(2)]
    for replica in replicas:
        replica.open_all_sessions()
    for version in VERSIONS:
        register_task(replicas[0].database, replicas[0].observations, TaskManifest.read(task_document(version)), ANN)
    yield replicas
    for replica in replicas:
        replica.database.close()


def test_concurrent_operations_leave_consistent_rows(replicas: list[Replica]) -> None:
    """R-13, R-14, R-16, R-22, L-11, L-14, L-15: deploys, moves, renames, pauses, bulk changes, deletions, fires, due
    passes, claims and settles run against each other. Each refusal has a stated reason, and afterwards every row agrees
    with its revisions."""
    until = time.monotonic() + SECONDS

    def is_over() -> bool:
        have_happened = all(any(replica.done[operation] for replica in replicas) for operation in REQUIRED)
        return time.monotonic() > until + (0 if have_happened else PATIENCE)

    def repeat(act: Callable[[random.Random], None], seed: int) -> None:
        chance = random.Random(seed)
        while not is_over():
            act(chance)

    acts = [
        act
        for replica in replicas
        for act in (
            *(replica.deploy, replica.deploy, replica.activate, replica.deactivate, replica.rename, replica.roll_back),
            replica.change_all,
            *(replica.fire, replica.cancel, replica.resync, replica.work),
        )
    ]
    acts += [replicas[0].delete, replicas[0].delete_task, replicas[1].register]
    at_once([partial(repeat, act, seed) for seed, act in enumerate(acts)])
    assert [error for replica in replicas for error in replica.unexpected] == []
    assert faults(replicas[0].database) == []
    done, refused = replicas[0].done + replicas[1].done, replicas[0].refused + replicas[1].refused
    assert {act.__name__.replace("_", " ") for act in acts} - {*done, *refused} == set()
    assert REQUIRED - set(+done) == set(), (done, refused)


def test_concurrent_writers_of_one_task_leave_exact_counts(replicas: list[Replica]) -> None:
    """R-13: 32 threads create, toggle, move and delete triggers of one task without a deadlock."""

    def write(seed: int) -> None:
        chance, replica = random.Random(seed), replicas[seed % 2]
        for _ in range(15):
            chance.choice((replica.deploy, replica.deploy, replica.activate, replica.deactivate, replica.delete))(
                chance
            )

    at_once([partial(write, seed) for seed in range(32)])
    assert [error for replica in replicas for error in replica.unexpected] == []
    assert faults(replicas[0].database) == []
    assert sum((replica.done for replica in replicas), Counter()).total() > WRITERS


class MeetingClock(ServerClock):
    """Clock that makes all threads wait for each other when they first ask for the time.

    A change asks for it after it has read and locked, and before it writes.
    """

    def __init__(self, number: int) -> None:
        self._barrier, self._local = threading.Barrier(number, timeout=PATIENCE), threading.local()

    def now(self, connection: Any, /) -> datetime:
        if not hasattr(self._local, "has_met"):
            self._local.has_met = True
            self._barrier.wait()
        return super().now(connection)


@pytest.mark.parametrize("earlier", ["never created", "seen missing by all", "deleted"])
def test_one_of_many_concurrent_creations_wins(replicas: list[Replica], earlier: str) -> None:
    """R-07, R-05: 64 threads create one trigger, each under another task version; 63 are refused because it exists."""
    first = replicas[0]
    versions = [f"of-{number}" for number in range(WRITERS)]
    for version in versions:
        register_task(first.database, first.observations, TaskManifest.read(task_document(version)), ANN)
    if earlier == "deleted":
        deploy_trigger(
            first.database,
            first.observations,
            TriggerManifest.read(trigger_document("tick")),
            Expected(absent=True),
            ANN,
        )
        delete_trigger(first.database, first.observations, key("tick"), Expected(revision=1), ANN)
    if earlier == "seen missing by all":
        replicas[0].database.clock = replicas[1].database.clock = MeetingClock(WRITERS)

    def create(number: int) -> Changed:
        manifest = TriggerManifest.read(trigger_document("tick", task_version=versions[number]))
        return deploy_trigger(
            replicas[number % 2].database, replicas[number % 2].observations, manifest, Expected(absent=True), ANN
        )

    answers = at_once([partial(create, number) for number in range(WRITERS)])
    assert Counter(map(type, answers)) == {Changed: 1, PreconditionFailed: WRITERS - 1}
    [created] = [answer for answer in answers if isinstance(answer, Changed)]
    assert (created.changed, created.created) == (True, True)
    revisions = {answer.current_revision for answer in answers if isinstance(answer, PreconditionFailed)}
    assert revisions == {created.trigger.revision}
    with first.database.read() as connection:
        assert triggers.get(connection, key("tick")) == created.trigger
    assert faults(first.database) == []
