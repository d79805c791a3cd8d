"""The optimistic lock."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from reconcile.decide.preconditions import Expected, check_change, check_deploy, check_revision, check_rollback
from revisions.errors import NotFound, PreconditionFailed, PreconditionRequired, TriggerctlError
from revisions.history.triggers import Trigger
from revisions.ids import TriggerKey

KEY = TriggerKey("acme", "production", "report", "tick")
CHANGED_AT = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


def trigger(deleted: bool = False) -> Trigger:
    """The current row at revision 3."""
    return Trigger(
        trigger_id="T",
        key=KEY,
        revision=3,
        active=not deleted,
        deleted=deleted,
        tags=(),
        until=None,
        origin=None,
        resolved="{}",
        scopes="[]",
        spec="{}",
        hash="",
        changed_at=CHANGED_AT,
        changed_by="ann",
        deactivated_reason=None,
        stopped_for=None,
    )


ABSENT, NOTHING_NAMED = Expected(absent=True), Expected()
THIRD, SECOND = Expected(revision=3), Expected(revision=2)
STANDS = "acme/production/report/tick stands at revision 3"
GONE = "acme/production/report/tick was deleted at revision 3"
UNKNOWN = "there is no trigger acme/production/report/tick"
NAME_IT = f"{STANDS}: name the revision you read"


@pytest.mark.parametrize(
    ("current", "expected", "error", "detail"),
    [
        pytest.param(None, NOTHING_NAMED, None, "", id="new"),
        pytest.param(None, ABSENT, None, "", id="new, expected to be absent"),
        pytest.param(
            None,
            THIRD,
            PreconditionFailed,
            "acme/production/report/tick does not exist, so it has no revision 3",
            id="new, expected at a revision",
        ),
        pytest.param(trigger(), THIRD, None, "", id="at the expected revision"),
        pytest.param(trigger(), SECOND, PreconditionFailed, f"{STANDS}, not 2", id="at another revision"),
        pytest.param(
            trigger(),
            ABSENT,
            PreconditionFailed,
            "acme/production/report/tick exists already, at revision 3",
            id="there, expected to be absent",
        ),
        pytest.param(trigger(), NOTHING_NAMED, PreconditionRequired, NAME_IT, id="there, nothing named"),
        pytest.param(trigger(deleted=True), NOTHING_NAMED, None, "", id="deleted"),
        pytest.param(trigger(deleted=True), ABSENT, None, "", id="deleted, expected to be absent"),
        pytest.param(trigger(deleted=True), THIRD, PreconditionFailed, GONE, id="deleted, expected at its revision"),
    ],
)
def test_a_deploy_meets_what_it_expects(
    current: Trigger | None, expected: Expected, error: type[TriggerctlError] | None, detail: str
) -> None:
    """R-04, R-05: a deleted trigger does not exist for it."""
    if error is None:
        check_deploy(KEY, current, expected)
        return
    with pytest.raises(error) as refused:
        check_deploy(KEY, current, expected)
    assert (type(refused.value), refused.value.detail) == (error, detail)


@pytest.mark.parametrize(
    ("current", "expected", "error", "detail"),
    [
        pytest.param(None, THIRD, NotFound, UNKNOWN, id="not there"),
        pytest.param(trigger(), THIRD, None, "", id="at the expected revision"),
        pytest.param(trigger(deleted=True), THIRD, None, "", id="deleted"),
        pytest.param(trigger(), SECOND, PreconditionFailed, f"{STANDS}, not 2", id="at another revision"),
        pytest.param(trigger(), NOTHING_NAMED, PreconditionRequired, NAME_IT, id="nothing named"),
        pytest.param(trigger(), ABSENT, PreconditionRequired, NAME_IT, id="expected to be absent"),
    ],
)
def test_a_rollback_meets_what_it_expects(
    current: Trigger | None, expected: Expected, error: type[TriggerctlError] | None, detail: str
) -> None:
    """R-04, R-22: it brings back what was deleted."""
    if error is None:
        check_rollback(KEY, current, expected)
        return
    with pytest.raises(error) as refused:
        check_rollback(KEY, current, expected)
    assert (type(refused.value), refused.value.detail) == (error, detail)


@pytest.mark.parametrize(
    ("current", "expected", "error", "detail"),
    [
        pytest.param(None, THIRD, NotFound, UNKNOWN, id="not there"),
        pytest.param(trigger(deleted=True), THIRD, NotFound, GONE, id="deleted"),
        pytest.param(trigger(), SECOND, PreconditionFailed, f"{STANDS}, not 2", id="at another revision"),
        pytest.param(trigger(), NOTHING_NAMED, PreconditionRequired, NAME_IT, id="nothing named"),
    ],
)
def test_a_change_needs_a_trigger_that_is_there(
    current: Trigger | None, expected: Expected, error: type[TriggerctlError], detail: str
) -> None:
    """R-04, R-08."""
    with pytest.raises(error) as refused:
        check_change(KEY, current, expected)
    assert (type(refused.value), refused.value.detail) == (error, detail)


def test_a_change_is_given_the_trigger_it_met() -> None:
    """R-04."""
    current = trigger()
    assert check_change(KEY, current, THIRD) is current


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(lambda: check_revision(trigger(), 2), id="another revision"),
        pytest.param(lambda: check_deploy(KEY, trigger(), ABSENT), id="expected to be absent"),
        pytest.param(lambda: check_deploy(KEY, trigger(deleted=True), THIRD), id="deleted"),
    ],
)
def test_a_failed_precondition_says_where_the_trigger_stands(check: Callable[[], None]) -> None:
    """R-04: the revision, who made it and when, so that the caller can look."""
    with pytest.raises(PreconditionFailed) as refused:
        check()
    error = refused.value
    assert (error.current_revision, error.changed_by, error.changed_at) == (3, "ann", CHANGED_AT)


@pytest.mark.parametrize("current", [pytest.param(None, id="never there"), pytest.param(trigger(True), id="deleted")])
def test_what_is_not_there_can_be_deployed_as_new(current: Trigger | None) -> None:
    """R-05: the way out."""
    with pytest.raises(PreconditionFailed) as refused:
        check_deploy(KEY, current, THIRD)
    [fault] = refused.value.errors
    assert (fault.path, fault.message) == ("trigger", refused.value.detail)
    assert fault.hint == "deploy it as new, without an expected revision"
