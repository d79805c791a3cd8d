"""What a folder asks of a server, from documents and rows alone."""

from dataclasses import replace
from typing import Any

import pytest

from reconcile.report.outlook import explain
from reconcile.report.plan import (
    Declared,
    LastDeploy,
    PlannedTrigger,
    PlanStep,
    ServerState,
    Verb,
    applied,
    check,
    decide,
    pruned,
    twice,
)
from revisions.errors import Conflict, Invalid
from revisions.history.triggers import DifferenceKind, FieldDifference
from revisions.ids import TaskKey
from revisions.spec import manifest
from tests.world import key, task_document, trigger_document

REPORT = TaskKey("acme", "production", "report", "v1")
SPEC = {"schedule": {"every": "1m"}, "task_version": "v1"}
TASKS = {REPORT: task_document()["spec"]}
OURS = PlannedTrigger(revision=3, active=True, tags=(), spec=SPEC, is_ours=True)
WITH_ONE = replace(OURS, spec=SPEC | {"input": {"a": 1}})
APPLIED = LastDeploy(3, "DEPLOY", "ci", "2026-03-02T08:00:00Z", applied("team"), "team")
BY_HAND = replace(APPLIED, actor="ann", reason="")


def said(*found: dict[str, Any]) -> list[Declared]:
    """Documents in files of their own, f0.yaml and so on."""
    return [Declared(f"f{index}.yaml", each, manifest.read(each)) for index, each in enumerate(found)]


def steps(*found: dict[str, Any], prune: bool = False, **rows: PlannedTrigger) -> list[tuple[Verb, str]]:
    there = ServerState(TASKS, {key(name): row for name, row in rows.items()})
    made = decide(said(*found), there, "team", prune=prune)
    return [(change.verb, change.key[-1]) for change in made.changes]


def only(document: dict[str, Any], row: PlannedTrigger, origin: str | None = "team") -> PlanStep:
    [change] = decide(said(document), ServerState(TASKS, {key("tick"): row}), origin, prune=False).changes
    return change


def explained(
    document: dict[str, Any], row: PlannedTrigger | None, past: LastDeploy, origin: str | None = "team"
) -> PlanStep:
    there = ServerState(TASKS, {key("tick"): row} if row else {})
    made = decide(said(document), there, origin, prune=False)
    return explain(made, {key("tick"): past}).changes[0]


def test_tasks_come_before_triggers_and_deletions_last() -> None:
    """U-02: whatever the order of the files, a trigger finds its task; what goes goes last."""
    found = steps(trigger_document("new"), task_document("v2"), task_document("v1"), prune=True, old=OURS)
    assert found == [(Verb.REGISTER, "v2"), (Verb.CREATE, "new"), (Verb.DELETE, "old")]


def test_what_is_as_the_folder_says_is_left_alone() -> None:
    """U-02, R-06: the same spec, tags and origin are no change, whatever the keys' order and the numbers' form."""
    document = trigger_document(input={"b": 1.0, "a": [True]})
    row = replace(OURS, spec={"task_version": "v1", "input": {"a": [True], "b": 1}, "schedule": {"every": "1m"}})
    made = decide(said(document, task_document()), ServerState(TASKS, {key("tick"): row}), "team", prune=True)
    assert (made.changes, made.unchanged) == ((), 2)


@pytest.mark.parametrize(
    ("document", "row", "expected"),
    [
        (trigger_document(schedule={"every": "5m"}), OURS, ("spec.schedule.every", DifferenceKind.CHANGED, "1m", "5m")),
        (trigger_document(description="x"), OURS, ("spec.description", DifferenceKind.ADDED, None, "x")),
        (
            trigger_document(),
            replace(OURS, spec=SPEC | {"retry": {}}),
            ("spec.retry", DifferenceKind.REMOVED, {}, None),
        ),
        (trigger_document(tags=["b", "a"]), OURS, ("tags", DifferenceKind.CHANGED, [], ["a", "b"])),
        (trigger_document(active=False), OURS, ("active", DifferenceKind.CHANGED, True, False)),
        (trigger_document(active=True), replace(OURS, active=False), ("active", DifferenceKind.CHANGED, False, True)),
        (trigger_document(input={"a": True}), WITH_ONE, ("spec.input.a", DifferenceKind.CHANGED, 1, True)),
        (trigger_document(), replace(OURS, is_ours=False), ("origin", DifferenceKind.ADDED, None, "team")),
    ],
    ids=["changed", "added", "removed", "tags", "active off", "active on", "true is not 1", "origin"],
)  # fmt: skip
def test_a_change_is_told_by_path(document: dict[str, Any], row: PlannedTrigger, expected: tuple[Any, ...]) -> None:
    """U-02: each path that differs, from what to what, and the revision that was read."""
    change = only(document, row)
    assert (change.verb, change.revision, change.differences) == (Verb.CHANGE, 3, (FieldDifference(*expected),))


def test_activation_belongs_to_the_operator() -> None:
    """R-20: a file that does not name `active` never changes it; that it differs is told, with the reason."""
    paused = replace(OURS, active=False, pause_reason="holiday", paused_until="2026-04-01T00:00:00Z")
    made = decide(said(trigger_document()), ServerState(TASKS, {key("tick"): paused}), "team", prune=False)
    assert made.changes == ()
    assert [(note.key, note.reason, note.until) for note in made.paused] == [
        (key("tick"), "holiday", "2026-04-01T00:00:00Z")
    ]
    named = decide(said(trigger_document(active=False)), ServerState(TASKS, {key("tick"): paused}), "team", prune=False)
    assert (named.changes, named.paused) == ((), ())


def test_pruning_touches_only_the_own_origin() -> None:
    """R-22: what another folder or a hand deployed stays; without --prune, what would go is only listed."""
    rows = {"ours": OURS, "theirs": replace(OURS, is_ours=False)}
    assert steps(prune=True, **rows) == [(Verb.DELETE, "ours")]
    made = decide([], ServerState(TASKS, {key(name): row for name, row in rows.items()}), "team", prune=False)
    assert (made.changes, made.not_in_folder) == ((), (key("ours"),))


def test_a_folder_without_a_name_records_and_prunes_nothing() -> None:
    """R-22: there is no origin that could be changed, and nothing that could be called its own."""
    made = decide(said(trigger_document()), ServerState(TASKS, {key("tick"): OURS}), None, prune=False)
    assert (made.changes, made.not_in_folder) == ((), ())


@pytest.mark.parametrize(
    ("past", "is_drift"),
    [
        (APPLIED, False),
        (BY_HAND, True),
        (replace(APPLIED, actor="ann", reason="rollback to revision 1"), True),
        (replace(APPLIED, origin="other", reason=applied("other")), True),
    ],
    ids=["applied from here", "by hand", "rolled back", "from another folder"],
)
def test_what_somebody_else_changed_is_drift(past: LastDeploy, is_drift: bool) -> None:
    """U-02: the last deploy was not from this folder: who it was, and when, is shown."""
    change = explained(trigger_document(description="x"), OURS, past)
    assert change.drift == (past if is_drift else None)


def test_a_takeover_shows_whose_it_was() -> None:
    """R-22: the recorded origin that is to change; as long as the spec is the same, nothing is lost by it."""
    row, past = replace(OURS, is_ours=False), replace(APPLIED, origin="other", reason=applied("other"))
    change = explained(trigger_document(), row, past)
    assert change.differences == (FieldDifference("origin", DifferenceKind.CHANGED, "other", "team"),)
    assert change.drift is None


def test_a_deletion_by_hand_is_drift_and_by_pruning_is_not() -> None:
    """U-02, R-05: bringing back what a person deleted is said; what this folder itself pruned comes back silently."""
    gone = replace(BY_HAND, action="DELETE")
    assert explained(trigger_document(), None, gone).drift == gone
    assert explained(trigger_document(), None, replace(gone, reason=pruned("team"))).drift is None
    assert explained(trigger_document(), None, BY_HAND).drift is None


def test_drift_without_a_name() -> None:
    """U-02: a folder without a name knows its own deploys too."""
    own = replace(APPLIED, origin=None, reason=applied(None))
    assert explained(trigger_document(description="x"), OURS, own, None).drift is None
    assert explained(trigger_document(description="x"), OURS, BY_HAND, None).drift == BY_HAND


def test_the_same_thing_twice_names_both_places() -> None:
    """U-02: for triggers and task versions; two versions of a task are two things."""
    faults = twice(said(trigger_document(), task_document(), trigger_document(), task_document(), task_document("v2")))
    assert [(fault.path, fault.message) for fault in faults] == [
        ("f2.yaml", "Trigger acme/production/report/tick stands in f0.yaml too"),
        ("f3.yaml", "Task acme/production/report@v1 stands in f1.yaml too"),
    ]


def test_a_task_version_changed_in_place_is_refused() -> None:
    """R-23: before anything is done, naming what differs and the way out."""
    with pytest.raises(Conflict) as refused:
        check(said(task_document(timeout="5m")), ServerState(TASKS, {}))
    [fault] = refused.value.errors
    assert "spec.timeout" in fault.message
    assert fault.hint == "give the changed task a new version"


def test_a_trigger_must_find_its_task() -> None:
    """R-14: on the server or in the folder; all that do not are told at once, with the versions there are."""
    found = [trigger_document("a", task_version="v2"), trigger_document("b", task_version="v9"), task_document("v2")]
    with pytest.raises(Invalid) as refused:
        check(said(*found, trigger_document("c", task="other")), ServerState(TASKS, {}))
    assert [(fault.path, fault.message, fault.hint) for fault in refused.value.errors] == [
        ("f1.yaml: spec.task_version", "there is no report v9", "there are v1, v2"),
        ("f3.yaml: spec.task_version", "there is no other v1", "put the Task into the folder, or register it first"),
    ]


def test_inputs_are_those_that_the_task_declares() -> None:
    """R-12: judged before anything is done, as the deploy would."""
    task = task_document("v2", inputs={"region": {"type": "string"}})
    check(said(task, trigger_document(task_version="v2", input={"region": "x"})), ServerState({}, {}))
    with pytest.raises(Invalid, match=r"spec.input.regoin: is not an input of the task"):
        check(said(task, trigger_document(task_version="v2", input={"regoin": "x"})), ServerState({}, {}))
