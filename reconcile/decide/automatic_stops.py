"""Automatic deactivation of triggers: the reason and the end of the pause (S-15, X-07, X-08)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reconcile.decide import budget
from reconcile.decide.admission import DISPLACING
from reconcile.decide.budget import Spending, budget_of
from reconcile.decide.terms import ends_by_expiry
from revisions.history.triggers import StopReason
from revisions.ids import utc_text
from revisions.spec.trigger import TriggerSpec

NEAR: Final = timedelta(days=7)
"""An expiry that is nearer than this is warned of."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Request to deactivate a trigger, for good or until an instant."""

    reason: StopReason
    until: datetime | None = None


def worn_out(spec: TriggerSpec, failures: int, successes: int) -> Stop | None:
    """Return the stop that the run counts call for: too many failures in a row, or `max_runs` successes."""
    if failures >= spec.deactivate_after:
        return Stop(StopReason.FAILURES)
    return Stop(StopReason.MAX_RUNS) if _reached_max_runs(spec, successes) else None


def still_wanted(max_runs: int, successes: int, live: int, policy: str) -> int:
    """Return how many runs may start so that at most `max_runs` succeed if every live run succeeds.

    Live runs are not counted under policies that end them to make room.
    """
    return max(0, max_runs - successes - (0 if policy in DISPLACING else live))


def over(spec: TriggerSpec) -> Stop:
    """Return the stop of a trigger whose schedule has no fire left."""
    return Stop(StopReason.EXPIRED if ends_by_expiry(spec) else StopReason.COMPLETED)


def limit_warnings(spec: TriggerSpec, successes: int, spending: Spending | None, now: datetime) -> Iterator[str]:
    """Warn whoever deploys or activates a trigger of limits that are used up or about to end.

    `successes` is the number of its runs that count as such, `spending` what it has spent of its budget.
    """
    limit = budget_of(spec)
    if limit and spending and (message := budget.warning(limit, spending, now)):
        yield message
    if most := _reached_max_runs(spec, successes):
        yield (
            f"{successes} of its runs have succeeded, and limits.max_runs is {most}: it is deactivated before "
            "anything more fires, unless limits.max_runs is raised"
        )
    expires_at = spec.limits.expires_at
    if expires_at and expires_at - now <= NEAR:
        yield f"it expires at {utc_text(expires_at)}: nothing fires from then on, unless limits.expires_at is moved"


def beyond_limits(spec: TriggerSpec, successes: int) -> Iterator[str]:
    """Warn whoever starts runs by hand: no limit of successes holds such runs back."""
    if most := _reached_max_runs(spec, successes):
        yield f"{successes} of its runs have succeeded, and limits.max_runs is {most}: runs by hand go beyond it"


def _reached_max_runs(spec: TriggerSpec, successes: int) -> int | None:
    most = spec.limits.max_runs
    return most if most is not None and successes >= most else None
