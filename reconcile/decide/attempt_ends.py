"""Decisions at the end of an attempt: what follows for the run, and the state and next fire that its output asks for.

X-07: another attempt, the end of the run, or its return to the queue. X-03, X-06, S-08: reserved keys of the output.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from revisions.history.chain import canonical
from revisions.outcomes import RunStatus
from revisions.spec.notation import ScheduleError, instant, shown

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


NEXT_FIRE_KEY: Final = "next_fire_at"
SOONEST: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class RequestedFire:
    """Next fire requested by a run: the instant, None if the request is invalid; `note` explains any adjustment."""

    at: datetime | None
    note: str = ""


def requested_fire(output: Mapping[str, Any] | None, now: datetime) -> RequestedFire | None:
    """Return the next fire that an output requests, or None. An instant in the past becomes one second from `now`."""
    if output is None or output.get(NEXT_FIRE_KEY) is None:
        return None
    try:
        at = instant(output[NEXT_FIRE_KEY])
    except ScheduleError as error:
        return RequestedFire(None, f"{NEXT_FIRE_KEY}: {error.message}; {error.hint}")
    if at <= now:
        return RequestedFire(
            now + SOONEST, f"{NEXT_FIRE_KEY}: {shown(output[NEXT_FIRE_KEY])} was not ahead, so it fires a second later"
        )
    return RequestedFire(at)


STATE_KEY: Final = "state"
"""The output that is kept for a trigger's next run, and what a task finds it under."""
LARGEST: Final = 64 * 1024
"""Bytes of its canonical text; what is larger belongs into a store of its own, with a reference in the state."""


@dataclass(frozen=True, slots=True)
class ProducedState:
    """A state as canonical JSON, and what is wrong with it: None for one that can be kept."""

    text: str
    fault: str | None


def state_of(value: Any) -> ProducedState:
    """Any JSON value as a state."""
    text = canonical(value)
    size = len(text.encode())
    too_large = f"is {size:,} bytes as canonical JSON, at most {LARGEST:,} are kept"
    return ProducedState(text, too_large if size > LARGEST else None)


def produced_state(output: Mapping[str, Any] | None) -> ProducedState | None:
    """The state in an output, null being one too; None for an output without."""
    return state_of(output[STATE_KEY]) if output is not None and STATE_KEY in output else None
