"""Warnings about a spec, shown to people who deploy, activate or fire a trigger (E-15, X-08)."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from reconcile.decide import budget
from reconcile.decide.budget import Spending, budget_of
from revisions.ids import utc_text
from revisions.spec.trigger import TriggerSpec

EXPIRY_NOTICE: Final = timedelta(days=7)
"""Remaining lifetime below which an expiry is mentioned."""


def destructive_warnings(spec: TriggerSpec) -> Iterator[str]:
    """Warn when the runs of a spec are told that they may destroy data (E-15)."""
    if spec.allow_destructive:
        yield (
            "spec.allow_destructive is on: its runs are told that they may destroy and overwrite, whoever caused them "
            "and whatever their input says; leave it out unless the task needs it"
        )


def limit_warnings(spec: TriggerSpec, successes: int, spending: Spending | None, now: datetime) -> Iterator[str]:
    """Warn about limits that are reached, or will be soon.

    `successes` is the number of runs that count towards `limits.max_runs`; `spending` is what the current budget
    period has cost so far, None for a trigger without a budget or without runs.
    """
    limit = budget_of(spec)
    if limit and spending and (text := budget.warning(limit, spending, now)):
        yield text
    if most := _reached_max_runs(spec, successes):
        yield (
            f"{successes} of its runs have succeeded, and limits.max_runs is {most}: it is deactivated before "
            "anything more fires, unless limits.max_runs is raised"
        )
    expires_at = spec.limits.expires_at
    if expires_at and expires_at - now <= EXPIRY_NOTICE:
        yield f"it expires at {utc_text(expires_at)}: nothing fires from then on, unless limits.expires_at is moved"


def manual_run_warnings(spec: TriggerSpec, successes: int) -> Iterator[str]:
    """Warn that runs started by hand are not stopped by `limits.max_runs`."""
    if most := _reached_max_runs(spec, successes):
        yield f"{successes} of its runs have succeeded, and limits.max_runs is {most}: runs by hand go beyond it"


def _reached_max_runs(spec: TriggerSpec, successes: int) -> int | None:
    """Return `limits.max_runs` if as many runs have succeeded."""
    most = spec.limits.max_runs
    return most if most is not None and successes >= most else None
