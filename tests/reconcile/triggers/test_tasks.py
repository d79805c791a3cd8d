"""Warnings of a registration about triggers of other versions that rely on the state."""

import pytest

from reconcile.decide.authority import Caller
from reconcile.triggers.tasks import register_task
from revisions.spec.task import TaskManifest
from tests.world import World, key, task_document

KEEPS = {"outputs": {"state": {"type": "object"}, "rows": {"type": "integer"}}}
TAKES = {"inputs": {"state": {"type": "object"}}}


def test_a_version_without_the_state_that_triggers_rely_on_gives_a_warning(world: World) -> None:
    """R-15: the warning names the active triggers; the version is registered all the same."""
    world.register("v2", **KEEPS)
    world.create("a", task_version="v2")
    world.create("b", task_version="v2")
    world.create("paused", task_version="v2", active=False)
    world.create("gone", task_version="v2")
    world.delete("gone", 1)
    world.create("other")
    made = world.register("v3", outputs={"rows": {"type": "integer"}, "State": {"type": "object"}})
    (warning,) = made.warnings
    assert made.changed
    assert "report@v3 has no output 'state', which version v2 declares" in warning
    assert warning.endswith(f"active triggers rely on it: {key('a')}, {key('b')}")


def test_the_state_input_is_compared_too(world: World) -> None:
    """R-15: one warning for a missing `state` input, two when input and output are missing."""
    world.register("v2", **KEEPS, **TAKES)
    world.create(task_version="v2")
    assert ["input" in text for text in world.register("v3", **KEEPS).warnings] == [True]
    assert len(world.register("v4").warnings) == 2
    assert world.register("v5", **KEEPS, **TAKES).warnings == ()


@pytest.mark.parametrize("case", ["nobody", "nothing declared", "another task", "again"])
def test_no_warning_is_given(world: World, case: str) -> None:
    """R-15: without active triggers or state, for another task, and for a version that is registered already."""
    if case != "nothing declared":
        world.register("v2", **KEEPS)
    match case:
        case "nothing declared":
            world.create()
        case "another task":
            register_task(
                world.database,
                world.observations,
                TaskManifest.read(task_document("v3", "other", **KEEPS)),
                Caller("ann"),
            )
            world.create("tick", task_version="v1")
        case "again":
            world.register("v3")
            world.create(task_version="v2")
    assert world.register("v3").warnings == ()


def test_a_warning_names_at_most_twenty_triggers(world: World) -> None:
    """R-15: a warning stays readable."""
    world.register("v2", **KEEPS)
    for number in range(25):
        world.create(f"tick-{number:02}", task_version="v2")
    (warning,) = world.register("v3").warnings
    assert warning.count("tick-") == 20
    assert warning.endswith("tick-19 and 5 more")
