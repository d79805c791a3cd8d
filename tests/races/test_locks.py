"""Everything that locks rows, at once: no deadlock, no gap, no wrong count, nothing started that should not be."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from reconcile.deploying import Changed
from reconcile.rules.preconditions import Expected
from revisions.errors import PreconditionFailed
from revisions.manifests import Task, Trigger
from revisions.store import triggers
from tests.races.crowd import at_once
from tests.races.replica import ANN, Replica
from tests.races.truth import faults
from tests.world import key, task_document, trigger_document

SECONDS = 5.0
WRITERS = 64
NAMES = [f"tick-{number}" for number in range(12)]
VERSIONS = ["v1", "v2", "v3"]


@pytest.fixture
def replicas(database_url: str, tmp_path: Path) -> Iterator[list[Replica]]:
    """Two processes' worth, and three task versions."""
    made = [Replica(database_url, tmp_path / f"work-{number}", NAMES, VERSIONS) for number in range(2)]
    for replica in made:
        replica.connects()
    for version in VERSIONS:
        made[0].registering.register(Task.read(task_document(version)), ANN)
    yield made
    for replica in made:
        replica.database.close()


def test_everything_at_once(replicas: list[Replica]) -> None:
    """R-13, R-14, L-11, L-14, L-15: deploys, moves, pauses, deletions of triggers and of task versions, fires, due
    passes, claims and settles against each other for five seconds: nobody is refused but for a reason that is told,
    and afterwards every row is what its revisions make it."""
    until = time.monotonic() + SECONDS

    def go_on(act: Callable[[random.Random], None], seed: int) -> None:
        chance = random.Random(seed)
        while time.monotonic() < until:
            act(chance)

    acts = [
        act
        for one in replicas
        for act in (
            *(one.deploy, one.deploy, one.activate, one.deactivate, one.delete),
            *(one.register, one.fire, one.cancel, one.look, one.work),
        )
    ]
    acts.append(replicas[0].delete_task)
    at_once([partial(go_on, act, seed) for seed, act in enumerate(acts)])
    assert [fault for one in replicas for fault in one.unexpected] == []
    assert faults(replicas[0].database) == []
    done = replicas[0].done + replicas[1].done
    every = {"deploy", "activate", "deactivate", "delete", "register", "delete task", "fire", "cancel", "look", "work"}
    assert every - set(done) == set(), done


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


@pytest.mark.parametrize("was", ["never there", "deleted"])
def test_one_of_many_creations_under_different_task_versions(replicas: list[Replica], was: str) -> None:
    """R-07, R-05: 64 writers create one trigger, each under another version: one does, 63 are told that it exists."""
    deploying = replicas[0].deploying
    versions = [f"of-{number}" for number in range(WRITERS)]
    for version in versions:
        replicas[0].registering.register(Task.read(task_document(version)), ANN)

    def create(number: int) -> Changed:
        manifest = Trigger.read(trigger_document("tick", task_version=versions[number]))
        return replicas[number % 2].deploying.deploy(manifest, Expected(absent=True), ANN)

    if was == "deleted":
        deploying.deploy(Trigger.read(trigger_document("tick", task_version="v1")), Expected(absent=True), ANN)
        deploying.delete(key("tick"), Expected(revision=1), ANN)
    answers = at_once([partial(create, number) for number in range(WRITERS)])
    created = [answer for answer in answers if isinstance(answer, Changed)]
    assert Counter(map(type, answers)) == {Changed: 1, PreconditionFailed: WRITERS - 1}
    [made] = created
    assert (made.changed, made.created) == (True, True)
    for answer in answers:
        if isinstance(answer, PreconditionFailed):
            assert answer.current_revision == made.trigger.revision
    with replicas[0].database.read() as connection:
        assert triggers.get(connection, key("tick")) == made.trigger
    assert faults(replicas[0].database) == []
