"""What people are to know of a trigger's limits before they count on it (X-08): pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from reconcile.decide import budget
from reconcile.decide.budget import Spending, budget_of
from revisions.ids import utc_text
from revisions.spec.trigger import TriggerSpec

NEAR: Final = timedelta(days=7)
"""An end that is nearer is told."""


def warnings(spec: TriggerSpec, successes: int, spending: Spending | None, now: datetime) -> Iterator[str]:
    """What whoever deploys or activates a trigger is to know of the limits in its spec.

    `successes` is how many of its runs count as such, `spending` what is spent of the budget that the spec gives it.
    """
    its = budget_of(spec)
    if its and spending and (told := budget.warning(its, spending, now)):
        yield told
    if most := _reached(spec, successes):
        yield (
            f"{successes} of its runs have succeeded, and limits.max_runs is {most}: it is deactivated before "
            "anything more fires, unless limits.max_runs is raised"
        )
    expires_at = spec.limits.expires_at
    if expires_at and expires_at - now <= NEAR:
        yield f"it expires at {utc_text(expires_at)}: nothing fires from then on, unless limits.expires_at is moved"


def beyond(spec: TriggerSpec, successes: int) -> Iterator[str]:
    """What whoever starts runs by hand is to know: no limit of successes holds him back."""
    if most := _reached(spec, successes):
        yield f"{successes} of its runs have succeeded, and limits.max_runs is {most}: runs by hand go beyond it"


def _reached(spec: TriggerSpec, successes: int) -> int | None:
    """How many may succeed, where as many have."""
    most = spec.limits.max_runs
    return most if most is not None and successes >= most else None
