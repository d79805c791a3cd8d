"""Automatic deactivation of triggers: the reason and the end of the pause (S-15, X-07, X-08)."""

from dataclasses import dataclass
from datetime import datetime

from reconcile.decide.concurrency import DISPLACING
from reconcile.decide.terms import ends_by_expiry
from revisions.history.triggers import StopReason
from revisions.spec.trigger import TriggerSpec


@dataclass(frozen=True, slots=True)
class Stop:
    """Request to deactivate a trigger, for good or until an instant."""

    reason: StopReason
    until: datetime | None = None


def worn_out(spec: TriggerSpec, failures: int, successes: int) -> Stop | None:
    """Return the stop that the run counts call for: too many failures in a row, or `max_runs` successes."""
    if failures >= spec.deactivate_after:
        return Stop(StopReason.FAILURES)
    most = spec.limits.max_runs
    return Stop(StopReason.MAX_RUNS) if most is not None and successes >= most else None


def still_wanted(max_runs: int, successes: int, live: int, policy: str) -> int:
    """Return how many runs may start so that at most `max_runs` succeed if every live run succeeds.

    Live runs are not counted under policies that end them to make room.
    """
    return max(0, max_runs - successes - (0 if policy in DISPLACING else live))


def over(spec: TriggerSpec) -> Stop:
    """Return the stop of a trigger whose schedule has no fire left."""
    return Stop(StopReason.EXPIRED if ends_by_expiry(spec) else StopReason.COMPLETED)
