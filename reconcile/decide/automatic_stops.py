"""When a trigger is to stop by itself, why, and until when (S-15, X-07, X-08)."""

from dataclasses import dataclass
from datetime import datetime

from reconcile.decide.concurrency import DISPLACING
from reconcile.decide.terms import ends_by_expiry
from revisions.history.triggers import StopReason
from revisions.spec.trigger import TriggerSpec


@dataclass(frozen=True, slots=True)
class Stop:
    """That a trigger is to be deactivated, for good or until an instant."""

    reason: StopReason
    until: datetime | None = None


def worn_out(spec: TriggerSpec, failures: int, successes: int) -> Stop | None:
    """Whether the runs so far call for a stop: failed so often in a row, or succeeded so often in all."""
    if failures >= spec.deactivate_after:
        return Stop(StopReason.FAILURES)
    most = spec.limits.max_runs
    return Stop(StopReason.MAX_RUNS) if most is not None and successes >= most else None


def still_wanted(max_runs: int, successes: int, live: int, policy: str) -> int:
    """How many runs may start so that no more than `max_runs` succeed, should all that goes on succeed.

    What the policy ends to make room is not counted on.
    """
    return max(0, max_runs - successes - (0 if policy in DISPLACING else live))


def over(spec: TriggerSpec) -> Stop:
    """Why a trigger that has no fire left is to stop."""
    return Stop(StopReason.EXPIRED if ends_by_expiry(spec) else StopReason.COMPLETED)
