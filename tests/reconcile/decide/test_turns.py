"""Whose turn it is."""

from reconcile.decide.admission import Turns
from revisions.run_limits import RunningRun, WaitingRun


def waiting(id: str, trigger: str = "t", key: str | None = None, **limits: int) -> WaitingRun:
    of_trigger, of_task = limits.get("concurrency_limit"), limits.get("task_limit")
    return WaitingRun(id, trigger, "acme", "prod", "report", key, of_trigger, of_task)


def running(trigger: str = "t", key: str | None = None, project: str = "acme") -> RunningRun:
    return RunningRun(trigger, project, "prod", "report", key)


def test_each_turn_counts_for_those_after_it() -> None:
    """X-04: of three runs with one key the first goes, whatever else is free."""
    turns = Turns([], 10)
    assert turns.grant([waiting("a", key="k"), waiting("b", key="k"), waiting("c")]) == ["a", "c"]
    assert turns.full.keys == {("acme", "k")}
    assert turns.left == 8


def test_a_key_that_is_held_lets_none_go_in_its_project_alone() -> None:
    """X-04: a run that runs holds its key, another project's does not."""
    assert Turns([running(key="k")], 10).grant([waiting("a", key="k")]) == []
    assert Turns([running(key="k", project="other")], 10).grant([waiting("a", key="k")]) == ["a"]


def test_a_trigger_and_a_task_have_their_limits() -> None:
    """X-04: what runs counts against both; a limit that is not there bounds nothing."""
    turns = Turns([running("t")], 10)
    found = turns.grant([waiting("a", concurrency_limit=2), waiting("b", concurrency_limit=2), waiting("c", "u")])
    assert found == ["a", "c"]
    assert turns.full.triggers == {"t"}
    turns = Turns([running("other")], 10)
    assert turns.grant([waiting("a", task_limit=2), waiting("b", "u", task_limit=2)]) == ["a"]
    assert turns.full.tasks == {("acme", "prod", "report")}


def test_no_more_go_than_there_is_room() -> None:
    """X-04: the global limit, and what a worker takes at once."""
    assert Turns([], 1).grant([waiting("a"), waiting("b")]) == ["a"]
    assert Turns([], 0).grant([waiting("a")]) == []


def test_a_frozen_project_lets_nothing_go() -> None:
    """X-18, S-13: others go on."""
    turns = Turns([], 10, frozen=["acme"])
    assert turns.grant([waiting("a"), waiting("b")._replace(project="other")]) == ["b"]
    assert turns.left == 9


def test_a_run_without_a_turn_takes_nothing_from_others() -> None:
    """X-04: neither room, nor its key, nor a place of its task."""
    turns = Turns([running("t")], 2)
    found = turns.grant([waiting("a", key="k", concurrency_limit=1), waiting("b", "u", key="k"), waiting("c", "v")])
    assert (found, turns.left) == (["b", "c"], 0)
