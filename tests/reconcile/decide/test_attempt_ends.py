"""What follows the end of an attempt."""

from datetime import UTC, datetime, timedelta

import pytest

from reconcile.decide.attempt_ends import (
    AnotherAttempt,
    AttemptOutcome,
    Decision,
    HandBack,
    RunEnd,
    backoff,
    decide,
    failures,
)
from revisions.outcomes import RunStatus

NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
IN_2_SECONDS = AnotherAttempt(NOW + timedelta(seconds=2))


@pytest.mark.parametrize(
    ("outcome", "attempt", "cancel_requested", "expected"),
    [
        (AttemptOutcome.SUCCEEDED, 1, False, RunEnd(RunStatus.SUCCEEDED)),
        (AttemptOutcome.SUCCEEDED, 1, True, RunEnd(RunStatus.SUCCEEDED)),
        (AttemptOutcome.FAILED, 1, False, IN_2_SECONDS),
        (AttemptOutcome.FAILED, 3, False, RunEnd(RunStatus.FAILED)),
        (AttemptOutcome.FAILED, 4, False, RunEnd(RunStatus.FAILED)),
        (AttemptOutcome.FAILED, 1, True, RunEnd(RunStatus.CANCELLED)),
        (AttemptOutcome.TIMED_OUT, 1, False, IN_2_SECONDS),
        (AttemptOutcome.TIMED_OUT, 3, False, RunEnd(RunStatus.TIMED_OUT)),
        (AttemptOutcome.LOST, 1, False, IN_2_SECONDS),
        (AttemptOutcome.LOST, 3, False, RunEnd(RunStatus.FAILED)),
        (AttemptOutcome.LOST, 1, True, RunEnd(RunStatus.CANCELLED)),
        (AttemptOutcome.CANCELLED, 1, True, RunEnd(RunStatus.CANCELLED)),
        (AttemptOutcome.HANDED_BACK, 3, False, HandBack(NOW)),
        (AttemptOutcome.HANDED_BACK, 1, True, RunEnd(RunStatus.CANCELLED)),
    ],
)
def test_what_follows(outcome: AttemptOutcome, attempt: int, cancel_requested: bool, expected: Decision) -> None:
    """X-07: attempts are used by failures, timeouts and lost workers, not by a hand-back; a cancelled run is over."""
    decision = decide(outcome, attempt=attempt, max_attempts=3, cancel_requested=cancel_requested, now=NOW)
    assert decision == expected


def test_the_backoff_doubles_up_to_five_minutes() -> None:
    """X-07: 2^n seconds after attempt n, capped at 300."""
    seconds = [backoff(attempt).total_seconds() for attempt in (*range(1, 11), 100, 10**6)]
    assert seconds == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300]


@pytest.mark.parametrize(
    ("status", "run_revision", "expected"),
    [
        (RunStatus.SUCCEEDED, 2, 0),
        (RunStatus.SUCCEEDED, 1, 0),
        (RunStatus.FAILED, 2, 4),
        (RunStatus.TIMED_OUT, 2, 4),
        (RunStatus.FAILED, 1, 3),
        (RunStatus.CANCELLED, 2, 3),
    ],
)
def test_consecutive_failures(status: RunStatus, run_revision: int, expected: int) -> None:
    """X-07: failures of the current revision count, a success ends the row."""
    assert failures(3, status, run_revision=run_revision, current_revision=2) == expected
