"""Everything that locks rows, at once: no deadlock, no gap, no wrong count, nothing started that should not be."""

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

SECONDS = 5.0
WRITERS = 64
NAMES = [f"tick-{number}" for number in range(12)]
VERSIONS = ["v1", "v2", "v3"]


@pytest.fixture(autouse=True)
def _quick_turns() -> Iterator[None]:
    """Threads take turns often, else each of many waits for its turn while it holds its locks."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0002)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def replicas(database_url: str, tmp_path: Path) -> Iterator[list[Replica]]:
    """Two processes' worth, and three task versions."""
    made = [Replica(database_url, tmp_path / f"work-{number}", NAMES, VERSIONS) for number in range(2)]
    for replica in made:
        replica.connects()
    for version in VERSIONS:
        register_task(made[0].database, made[0].observations, TaskManifest.read(task_document(version)), ANN)
    yield made
    for replica in made:
        replica.database.close()


def test_everything_at_once(replicas: list[Replica]) -> None:
    """R-13, R-14, R-16, R-22, L-11, L-14, L-15: deploys, moves, renames, pauses, bulk changes, deletions of triggers
    and of task versions, fires, due passes, claims and settles against each other for five seconds: nobody is refused
    but for a reason that is told, and afterwards every row is what its revisions make it."""
    until = time.monotonic() + SECONDS

    def go_on(act: Callable[[random.Random], None], seed: int) -> None:
        chance = random.Random(seed)
        while time.monotonic() < until:
            act(chance)

    acts = [
        act
        for one in replicas
        for act in (
            *(one.deploy, one.deploy, one.activate, one.deactivate, one.rename, one.roll_back, one.change_all),
            *(one.fire, one.cancel, one.look, one.work),
        )
    ]
    acts += [replicas[0].delete, replicas[0].delete_task, replicas[1].register]
    at_once([partial(go_on, act, seed) for seed, act in enumerate(acts)])
    assert [fault for one in replicas for fault in one.unexpected] == []
    assert faults(replicas[0].database) == []
    done, refused = replicas[0].done + replicas[1].done, replicas[0].refused + replicas[1].refused
    assert {act.__name__.replace("_", " ") for act in acts} - {*done, *refused} == set()
    assert {"deploy", "delete task", "fire", "look", "work"} - set(+done) == set(), (done, refused)


def test_thirty_two_writers_of_one_task(replicas: list[Replica]) -> None:
    """R-13: adding, toggling, moving and deleting triggers of one task leave exact counts and never deadlock."""

    def write(seed: int) -> None:
        chance, one = random.Random(seed), replicas[seed % 2]
        for _ in range(15):
            chance.choice((one.deploy, one.deploy, one.activate, one.deactivate, one.delete))(chance)

    at_once([partial(write, seed) for seed in range(32)])
    assert [fault for one in replicas for fault in one.unexpected] == []
    assert faults(replicas[0].database) == []
    assert sum((one.done for one in replicas), Counter()).total() > WRITERS


class Meeting(ServerClock):
    """The time, told to all together: a change asks for it once it has looked and locked, and before it writes."""

    def __init__(self, number: int) -> None:
        self._barrier, self._met = threading.Barrier(number, timeout=PATIENCE), threading.local()

    def now(self, connection: Any, /) -> datetime:
        if not hasattr(self._met, "once"):
            self._met.once = True
            self._barrier.wait()
        return super().now(connection)


@pytest.mark.parametrize("was", ["never there", "never there, as all of them saw", "deleted"])
def test_one_of_many_creations_under_different_task_versions(replicas: list[Replica], was: str) -> None:
    """R-07, R-05: 64 writers create one trigger, each under another version: one does, 63 are told that it exists."""
    one = replicas[0]
    versions = [f"of-{number}" for number in range(WRITERS)]
    for version in versions:
        register_task(one.database, one.observations, TaskManifest.read(task_document(version)), ANN)
    if was == "deleted":
        deploy_trigger(
            one.database, one.observations, TriggerManifest.read(trigger_document("tick")), Expected(absent=True), ANN
        )
        delete_trigger(one.database, one.observations, key("tick"), Expected(revision=1), ANN)
    if was == "never there, as all of them saw":
        replicas[0].database.clock = replicas[1].database.clock = Meeting(WRITERS)

    def create(number: int) -> Changed:
        manifest = TriggerManifest.read(trigger_document("tick", task_version=versions[number]))
        return deploy_trigger(
            replicas[number % 2].database, replicas[number % 2].observations, manifest, Expected(absent=True), ANN
        )

    answers = at_once([partial(create, number) for number in range(WRITERS)])
    assert Counter(map(type, answers)) == {Changed: 1, PreconditionFailed: WRITERS - 1}
    [made] = [answer for answer in answers if isinstance(answer, Changed)]
    assert (made.changed, made.created) == (True, True)
    told = {answer.current_revision for answer in answers if isinstance(answer, PreconditionFailed)}
    assert told == {made.trigger.revision}
    with one.database.read() as connection:
        assert triggers.get(connection, key("tick")) == made.trigger
    assert faults(one.database) == []
