"""What somebody else did to the triggers of a folder since it was applied."""

from dataclasses import replace

import pytest

from reconcile.report.outlook import explain
from reconcile.report.plan import FolderPlan, LastDeploy, PlanStep, Verb, applied, pruned
from revisions.history.triggers import DifferenceKind, FieldDifference
from revisions.ids import TaskKey, TriggerKey

KEY = TriggerKey("acme", "production", "report", "tick")
DESCRIPTION = FieldDifference("spec.description", DifferenceKind.CHANGED, "a", "b")
ORIGIN = FieldDifference("origin", DifferenceKind.ADDED, None, "team")
OURS = LastDeploy(3, "DEPLOY", "ci", "2026-03-02T08:00:00Z", applied("team"), "team")
BY_HAND = replace(OURS, actor="ann", reason="")
OTHERS = replace(OURS, origin="other", reason=applied("other"))


def explained(
    verb: Verb, past: LastDeploy | None, *differences: FieldDifference, origin: str | None = "team"
) -> PlanStep:
    """One step of a plan, after the revision that made the trigger what it is was looked at."""
    step = PlanStep(verb, KEY, revision=3, differences=differences)
    plan = FolderPlan(origin, (step,), 0, (), ())
    [change] = explain(plan, {KEY: past} if past else {}).changes
    return change


@pytest.mark.parametrize(
    ("verb", "past", "differences", "is_drift"),
    [
        pytest.param(Verb.CHANGE, OURS, [DESCRIPTION], False, id="changed: our own"),
        pytest.param(Verb.CHANGE, BY_HAND, [DESCRIPTION], True, id="changed: by hand"),
        pytest.param(Verb.CHANGE, OTHERS, [DESCRIPTION], True, id="changed: by another folder"),
        pytest.param(Verb.CHANGE, BY_HAND, [ORIGIN], False, id="changed: the origin alone loses nothing"),
        pytest.param(Verb.CHANGE, BY_HAND, [ORIGIN, DESCRIPTION], True, id="changed: more than the origin"),
        pytest.param(Verb.CHANGE, replace(OURS, action="DELETE"), [DESCRIPTION], False, id="changed: gone meanwhile"),
        pytest.param(Verb.DELETE, OURS, [], False, id="deleted: our own"),
        pytest.param(Verb.DELETE, BY_HAND, [], True, id="deleted: changed by hand"),
        pytest.param(Verb.CREATE, OURS, [], False, id="created: back meanwhile"),
        pytest.param(Verb.CREATE, replace(BY_HAND, action="DELETE"), [], True, id="created: deleted by hand"),
        pytest.param(
            Verb.CREATE, replace(OURS, action="DELETE", reason=pruned("team")), [], False, id="created: pruned by us"
        ),
        pytest.param(
            Verb.CREATE,
            replace(OURS, action="DELETE", reason=pruned("other")),
            [],
            True,
            id="created: pruned by others",
        ),
    ],
)
def test_drift_is_what_this_folder_did_not_do(
    verb: Verb, past: LastDeploy, differences: list[FieldDifference], is_drift: bool
) -> None:
    """R-22, U-02: the revision is shown by which somebody else changed it."""
    assert explained(verb, past, *differences).drift == (past if is_drift else None)


def test_a_folder_without_a_name_prunes_nothing_of_its_own() -> None:
    """R-22: so a deletion is always somebody else's; its own deploys it knows."""
    gone = replace(OURS, action="DELETE", reason=pruned("team"), origin=None)
    assert explained(Verb.CREATE, gone, origin=None).drift == gone
    own = replace(OURS, origin=None, reason=applied(None))
    assert explained(Verb.CHANGE, own, DESCRIPTION, origin=None).drift is None


@pytest.mark.parametrize(
    ("past", "expected"),
    [
        pytest.param(OTHERS, FieldDifference("origin", DifferenceKind.CHANGED, "other", "team"), id="another folder's"),
        pytest.param(replace(OURS, origin=None), ORIGIN, id="nobody's"),
    ],
)
def test_a_takeover_says_whose_it_was(past: LastDeploy, expected: FieldDifference) -> None:
    """R-22: other differences stay as they are."""
    assert explained(Verb.CHANGE, past, ORIGIN, DESCRIPTION).differences == (expected, DESCRIPTION)


def test_steps_without_a_past_stay_as_they_are() -> None:
    """R-22: new triggers, and tasks, which have no origin."""
    assert explained(Verb.CREATE, None, DESCRIPTION) == PlanStep(
        Verb.CREATE, KEY, revision=3, differences=(DESCRIPTION,)
    )
    task = PlanStep(Verb.REGISTER, TaskKey("acme", "production", "report", "v1"))
    plan = FolderPlan("team", (task,), 0, (), ())
    assert explain(plan, {KEY: BY_HAND}) == plan
