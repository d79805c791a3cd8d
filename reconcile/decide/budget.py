"""What a trigger may spend in a calendar period, and how many runs that still buys (X-08)."""

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
"""Runs of which the dearest says what one more may cost, where the trigger does not say."""
_ANY_NUMBER: Final = 1e9
"""So many runs are as good as any number."""
_ALMOST: Final = 1e-9
"""What floating point may take from a sum that comes out even."""


@dataclass(frozen=True, slots=True)
class Budget:
    """At most `max_cost` in each `period`, as the clocks of a zone count it; a run is taken to cost `estimate`."""

    max_cost: float
    period: BudgetPeriod
    estimate: float | None
    zone: ZoneInfo

    def since(self, now: datetime) -> datetime:
        """When the period began that holds `now`."""
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
        """When the next period begins."""
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
    """What a trigger's runs cost in the period, what is set aside for the `live` ones that go on, and what the dearest
    of the last ten cost, None where none has ended yet."""

    spent: float
    reserved: float
    live: int
    dearest: float | None


def cost_of(output: Mapping[str, Any] | None) -> float | None:
    """What an attempt says it cost, None where it does not say, or says no cost; more than all is all there can be."""
    match (output or {}).get("cost"):
        case bool():
            return None
        case int() | float() as cost if cost >= 0:
            return float(min(cost, LARGEST_COST))
    return None


def budget_of(spec: TriggerSpec) -> Budget | None:
    """Return the budget of a trigger, None without one; its periods are those of the schedule's zone."""
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
    """What one more run is taken to cost."""
    return budget.estimate if budget.estimate is not None else spending.dearest or 0.0


def affordable(budget: Budget, spending: Spending) -> int | None:
    """How many more runs may start, None for any number.

    While nothing is spent or set aside one may always go: it is the one that crosses the budget, if it does. While
    nobody can say what a run costs they go one at a time.
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
    """The share of a budget that is spent or set aside; above 1 where runs cost more than was expected."""
    return (spent + reserved) / budget.max_cost


def is_used_up(budget: Budget, spending: Spending) -> bool:
    """Whether nothing may start until the period ends, whatever comes of the runs that go on.

    Attempts that failed are spent, and what is set aside for the next ones of their runs may be more than is left.
    """
    if spending.spent >= budget.max_cost - _ALMOST:
        return True
    if spending.spent > 0 and spending.spent + spending.reserved > budget.max_cost + _ALMOST:
        return True
    return spending.live == 0 and affordable(budget, spending) == 0


def warning(budget: Budget, spending: Spending, now: datetime) -> str | None:
    """What whoever deploys or activates a trigger is to know of its budget, None while it buys what it is for."""
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
