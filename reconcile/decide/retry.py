"""Decision at the end of an attempt: another attempt, the end of the run, or its return to the queue (X-07)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from revisions.outcomes import RunStatus

LONGEST_BACKOFF_SECONDS = 300


class AttemptOutcome(StrEnum):
    """Outcome of an attempt. LOST: its worker disappeared. HANDED_BACK: its worker is shutting down."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    LOST = "lost"
    HANDED_BACK = "handed_back"


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The run is over."""

    status: RunStatus


@dataclass(frozen=True, slots=True)
class AnotherAttempt:
    """Another attempt, not before an instant."""

    at: datetime


@dataclass(frozen=True, slots=True)
class HandBack:
    """The same attempt again, at once."""

    at: datetime


Decision = RunEnd | AnotherAttempt | HandBack


def backoff(attempt: int) -> timedelta:
    """Return the wait after failed attempt n (from 1): 2^n seconds, at most 300."""
    return timedelta(seconds=min(2 ** min(attempt, 9), LONGEST_BACKOFF_SECONDS))


def decide(
    outcome: AttemptOutcome, *, attempt: int, max_attempts: int, cancel_requested: bool, now: datetime
) -> Decision:
    """Return the next step after an attempt. A success stands; otherwise a requested cancellation ends the run."""
    match outcome:
        case AttemptOutcome.SUCCEEDED | AttemptOutcome.CANCELLED:
            return RunEnd(RunStatus(outcome))
        case _ if cancel_requested:
            return RunEnd(RunStatus.CANCELLED)
        case AttemptOutcome.HANDED_BACK:
            return HandBack(now)
        case _ if attempt < max_attempts:
            return AnotherAttempt(now + backoff(attempt))
        case AttemptOutcome.TIMED_OUT:
            return RunEnd(RunStatus.TIMED_OUT)
        case _:
            return RunEnd(RunStatus.FAILED)


def failures(consecutive: int, status: RunStatus, *, run_revision: int, current_revision: int) -> int:
    """Return the number of consecutive failures after a run; a failure of an older revision is not counted."""
    match status:
        case RunStatus.SUCCEEDED:
            return 0
        case RunStatus.FAILED | RunStatus.TIMED_OUT if run_revision == current_revision:
            return consecutive + 1
        case _:
            return consecutive
