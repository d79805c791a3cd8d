"""Budgets of triggers per calendar period, and the number of runs they still pay for (X-08)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from reconcile.schedule import zones
from revisions.ids import utc_text
from revisions.spec.fields import LARGEST_COST
from revisions.spec.trigger import BudgetPeriod, TriggerSpec

RECENT: Final = 10
"""Number of recent runs whose highest cost serves as the estimate when the trigger declares none."""
_ANY_NUMBER: Final = 1e9
"""Number of affordable runs above which the budget sets no limit."""
_ALMOST: Final = 1e-9
"""Tolerance for rounding errors in sums of floating-point costs."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limit of `max_cost` per `period` in the clock time of `zone`; one run is assumed to cost `estimate`."""

    max_cost: float
    period: BudgetPeriod
    estimate: float | None
    zone: ZoneInfo

    def since(self, now: datetime) -> datetime:
        """Return the start of the period that contains `now`."""
        day = now.astimezone(self.zone).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        match self.period:
            case BudgetPeriod.DAY:
                first = day
            case BudgetPeriod.WEEK:
                first = day - timedelta(days=day.weekday())
            case BudgetPeriod.MONTH:
                first = day.replace(day=1)
            case _:
                first = day.replace(month=1, day=1)
        return first.astimezone(UTC)

    def until(self, now: datetime) -> datetime:
        """Return the start of the next period."""
        first = self.since(now).astimezone(self.zone)
        match self.period:
            case BudgetPeriod.DAY:
                following = first + timedelta(days=1)
            case BudgetPeriod.WEEK:
                following = first + timedelta(days=7)
            case BudgetPeriod.MONTH:
                following = (first + timedelta(days=32)).replace(day=1)
            case _:
                following = first.replace(year=first.year + 1)
        return following.replace(hour=0, fold=0).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Spending:
    """Costs of a trigger's runs in the current period. `reserved` is set aside for the `live` runs; `dearest` is the
    highest cost among the last ten runs, None if none has ended.
    """

    spent: float
    reserved: float
    live: int
    dearest: float | None


def cost_of(output: Mapping[str, Any] | None) -> float | None:
    """Return the cost in an attempt's output, capped at the largest storable cost; None if it holds no valid cost."""
    match (output or {}).get("cost"):
        case bool():
            return None
        case int() | float() as cost if cost >= 0:
            return float(min(cost, LARGEST_COST))
    return None


def budget_of(spec: TriggerSpec) -> Budget | None:
    """Return a trigger's budget, None if it has none. Periods follow the schedule's zone."""
    limits = spec.limits
    if limits.max_cost is None:
        return None
    return Budget(
        max_cost=limits.max_cost,
        period=limits.budget_period or BudgetPeriod.MONTH,
        estimate=limits.estimate,
        zone=zones.zone(spec.schedule.timezone or "UTC"),
    )


def expected(budget: Budget, spending: Spending) -> float:
    """Return the assumed cost of one more run."""
    return budget.estimate if budget.estimate is not None else spending.dearest or 0.0


def affordable(budget: Budget, spending: Spending) -> int | None:
    """Return how many more runs may start, None for no limit.

    While nothing is spent or reserved, one run may always start, even if it exceeds the budget. While no cost is known,
    runs start one at a time.
    """
    left = budget.max_cost - spending.spent - spending.reserved
    if left <= _ALMOST:
        return 0
    if budget.estimate is None and spending.dearest is None:
        return 0 if spending.live else 1
    each = expected(budget, spending)
    if each <= 0 or left / each > _ANY_NUMBER:
        return None
    number = int(left / each + _ALMOST)
    return number or int(spending.spent == 0 and spending.reserved == 0)


def used(budget: Budget, spent: float, reserved: float) -> float:
    """Return the share of a budget that is spent or reserved; above 1 when runs cost more than estimated."""
    return (spent + reserved) / budget.max_cost


def is_used_up(budget: Budget, spending: Spending) -> bool:
    """Return true when nothing may start before the period ends, whatever the live runs turn out to cost.

    Failed attempts count as spent, and the amount reserved for their retries may exceed the remainder.
    """
    if spending.spent >= budget.max_cost - _ALMOST:
        return True
    if spending.spent > 0 and spending.spent + spending.reserved > budget.max_cost + _ALMOST:
        return True
    return spending.live == 0 and affordable(budget, spending) == 0


def warning(budget: Budget, spending: Spending, now: datetime) -> str | None:
    """Return a warning about the budget for people who deploy or activate the trigger, None if it suffices."""
    if not is_used_up(budget, spending):
        return _too_small(budget, spending)
    each = expected(budget, spending)
    cost = f" and a run is taken to cost {each:g}" if spending.spent < budget.max_cost and each else ""
    return (
        f"its budget is used up, {spending.spent:g} of {budget.max_cost:g} are spent in this {budget.period}{cost}: "
        f"nothing starts before {utc_text(budget.until(now))}, unless limits.max_cost is raised"
    )


def _too_small(budget: Budget, spending: Spending) -> str | None:
    each = expected(budget, spending)
    if each <= budget.max_cost + _ALMOST:
        return None
    return (
        f"the dearest of its last runs cost {each:g}, more than the {budget.max_cost:g} that it may spend: a single "
        f"run starts in each {budget.period}, unless limits.max_cost is raised or limits.estimate says what a run costs"
    )
