"""What each outcome and status means, and what to do next."""

import pytest

from reconcile.report import wording
from reconcile.report.wording import DEACTIVATED, ENOUGH, OUTCOMES, RATE, RESTORED, STATUSES, Advice
from revisions.outcomes import OccurrenceOutcome, RunStatus


@pytest.mark.parametrize(
    ("outcome", "reason", "expected"),
    [
        pytest.param("missed", "", OUTCOMES[OccurrenceOutcome.MISSED], id="missed"),
        pytest.param("missed", "rate", RATE, id="missed for want of a token"),
        pytest.param("missed", "count", OUTCOMES[OccurrenceOutcome.MISSED], id="missed for another reason"),
        pytest.param("concurrency", "", OUTCOMES[OccurrenceOutcome.CONCURRENCY], id="concurrency"),
        pytest.param("concurrency", "max_runs", ENOUGH, id="enough may succeed"),
        pytest.param("superseded", "", OUTCOMES[OccurrenceOutcome.SUPERSEDED], id="superseded"),
        pytest.param("superseded", "restore", RESTORED, id="superseded by a restore"),
        pytest.param("budget", "rate", OUTCOMES[OccurrenceOutcome.BUDGET], id="another outcome with such a reason"),
        pytest.param("eaten", "", Advice("its outcome is eaten"), id="of another release"),
    ],
)
def test_a_skip_is_explained_by_outcome_and_reason(outcome: str, reason: str, expected: Advice) -> None:
    """U-03, E-05."""
    assert wording.of_skip(OccurrenceOutcome(outcome), reason) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [("failed", STATUSES[RunStatus.FAILED]), ("dreaming", Advice("is dreaming"))],
    ids=["known", "of another release"],
)
def test_a_status_is_explained(status: str, expected: Advice) -> None:
    """U-03."""
    assert wording.of_status(RunStatus(status)) == expected


@pytest.mark.parametrize(
    ("stopped_for", "expected"),
    [
        pytest.param("failures", DEACTIVATED["failures"], id="by the system"),
        pytest.param(None, Advice("why", "`triggerctl activate {trigger}` resumes it from then on"), id="by a person"),
        pytest.param(
            "moon", Advice("why", "`triggerctl activate {trigger}` resumes it from then on"), id="of another release"
        ),
    ],
)
def test_a_deactivation_is_explained(stopped_for: str | None, expected: Advice) -> None:
    """U-03."""
    assert wording.of_deactivation(stopped_for, "why") == expected


@pytest.mark.parametrize("texts", [OUTCOMES, STATUSES, DEACTIVATED], ids=["outcomes", "statuses", "deactivations"])
def test_every_advice_can_be_filled_in(texts: dict[str, Advice]) -> None:
    """U-03: names to type stand in braces, everything else is plain text."""
    for found in texts.values():
        assert found.why
        assert "{" not in found.following.format(trigger="T", run="R").replace("catchup: {", "")
